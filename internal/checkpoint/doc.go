// Package checkpoint says what is in a folder, in a form that can travel: a manifest of names, modes, links and
// files, whose content is in chunks that are named by what they hold. It reads a folder (Scanner), writes one
// (Apply), and checks what others send (Tree.Check).
//
//	folder ──Scan──▶ Tree ──Encode──▶ root ─▶ pages ─▶ chunks ──Load──▶ Tree ──Check, Apply──▶ folder
//
// A chunk is at most ChunkBytes long, and is called by its SHA-256. Small files share chunks, large ones have
// many. The manifest is chunks, too: a page lists some hundred entries, the root lists the pages, and the
// root's name is the manifest's. So a folder in which one file has changed is one new chunk, one new page and a
// new root.
//
// # Invariants
//
//   - A Tree has files, folders and symbolic links, with the nine permission bits, and nothing else: no sockets, pipes, devices, owners, hard links, setuid. Whatever is called .git, in any case and at
//     any depth, is not in it, and of Retake's own folder only the spool, if it is asked for.
//   - What Load returns was decoded from chunks that are what they are called. What Check lets through has names that stay inside, each once, each below a folder
//     that is there, and is within Limits.
//   - Apply follows no link, neither one that is there nor one that it makes, and opens each folder step by step. It can be repeated after having stopped anywhere.
//   - A file counts as unchanged without being read only if its size, inode, and times of change are what they were, and were old enough when it was read to tell. A whole scan reads all.
//
// # Clock
//
// Wall time, as the file system's: a file that changed within the last second before it was read is read again.
// Nothing is decided by it otherwise.
//
// # Failure policy
//
// Errors of the system are returned as they are. What is beyond a limit is *Exceeded, what breaks a rule
// *Malformed; both name the place. A folder that changes while it is read gives a tree that it may never have
// been; nothing of it is torn but what a program was writing.
//
// It imports safefile and worktree, and nothing else of this module. The worker, the bus and the workspace import it.
package checkpoint
