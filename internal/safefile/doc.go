// Package safefile makes, replaces, rotates and removes files so that a crash at any moment leaves whole ones:
// a reader sees the old content or the new, also after a power cut. Load sets aside what is damaged all the
// same. It is the one way in which the director's and the worker's own files are written; the linter knows.
//
// Files are named relative to an os.Root, because some of the folders belong to agents: no symbolic link leads
// a write outside, and what somebody put in the way of the temporary file is never followed. Tail reads only
// regular files there. Walk and RemoveAll go through folders of any depth with a few descriptors and by no
// path, because agents make folders, too. Create is for programs that are run at once, in folders that are
// thrown away after a crash. The package imports the standard library and x/sys only.
package safefile
