package journal

import "context"

// A Sized log can report how much disk space it takes, for monitoring. It is optional.
type Sized interface {
	Log

	// Size returns the space that all partitions take together, and how much is free. It may look
	// at files and ask servers. It returns an error if they do not answer while ctx lasts.
	Size(ctx context.Context) (Size, error)
}

// A Size is the disk space of a log.
type Size struct {
	// Bytes is the total space on disk, of one replica. It includes what the log has preallocated,
	// and what was purged but is not freed yet.
	Bytes uint64
	// Kept is the part of it that may still be needed: records, steps, pieces of
	// states and snapshots. MaxBytes limits this amount, and it is counted as the log
	// counts it against that limit.
	Kept uint64
	// MaxBytes is the limit, as [OpenOptions].MaxBytes; zero if there is none.
	MaxBytes uint64

	// Free is how much may still be written to the file system of the log, and Disk is the size of
	// that file system. Both are zero if the log does not know its file system.
	Free, Disk uint64
}
