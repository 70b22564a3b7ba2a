package journal

import "context"

// A Sized log says what it takes of a disk. Whoever watches a flow asks it. It is optional: a log
// that cannot say has no such method.
type Sized interface {
	Log

	// Size returns what all partitions take together, and how much room there is. It may look at
	// files and ask servers, and returns an error if they do not answer while ctx lasts.
	Size(ctx context.Context) (Size, error)
}

// A Size is what a log takes of a disk.
type Size struct {
	// Bytes is what everything takes on disk, of one replica, with what the log has set aside
	// and what was purged and is not freed yet.
	Bytes uint64
	// Kept is how much of that are records, steps, pieces of states and snapshots that may be
	// needed, which is what MaxBytes bounds. It is counted as the log counts it against that bound.
	Kept uint64
	// MaxBytes is that bound, as [OpenOptions].MaxBytes; zero if there is none.
	MaxBytes uint64

	// Free is how much may still be written to the file system that the log is on, and Disk how
	// large that is. Both are zero if the log does not know its file system.
	Free, Disk uint64
}
