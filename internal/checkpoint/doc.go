// Package checkpoint describes the content of a directory in a form that can be sent. A manifest lists names, modes,
// links and files. Chunks hold the content of the files, and the name of a chunk is its digest. The package reads a
// directory (Scanner), writes a directory (Apply), and checks trees from untrusted senders (Tree.Check).
//
//	directory ──Scan──▶ Tree ──Encode──▶ root ─▶ pages ─▶ chunks ──Load──▶ Tree ──Check, Apply──▶ directory
//
// A chunk is at most ChunkBytes long, and its name is its SHA-256. Small files share chunks, and large files have many.
// The manifest also consists of chunks. A page lists a few hundred entries, the root lists the pages, and the name of
// the root is the name of the manifest. A change to one file therefore costs one new chunk, one new page and a new
// root.
//
// # Invariants
//
//   - A Tree has only files, directories and symbolic links, with the nine permission bits. It never has sockets,
//     pipes, devices, owners, hard links or setuid bits. Entries called .git, ignoring case, are skipped at any depth.
//     The spool is the only included part of Retake's own directory, and only on request.
//   - Load decodes only chunks that match their digest. Check accepts only paths that stay inside the directory, occur
//     once, and have a parent directory in the tree. It also enforces Limits.
//   - Apply never follows a link, whether the link existed before or Apply made it, and opens each directory step by
//     step. It can be repeated after an interruption at any point.
//   - A scan skips reading a file only if its size, inode and times are unchanged since it was last read, and the times
//     were then old enough to reveal any later change. A whole scan reads every file.
//
// # Clock
//
// Like the file system, the package uses wall time. A file that changed within the last second before it was read is
// read again. No other decision depends on the clock.
//
// # Failure policy
//
// System errors are returned unchanged. An exceeded limit is *Exceeded and a broken rule is *Malformed. Their texts
// name the path, if one path is the cause. If a directory changes during a scan, the tree may show a state that never
// existed as a whole. A single file is inconsistent only if a program was writing it.
//
// Within this module it imports only safefile and worktree. The worker, the bus and the workspace import it.
package checkpoint
