package journal

import "context"

// An Ahead is a [Log] in which the process that commits the steps of a partition can read records
// before they are durable. The log then needs one sync instead of two for a record and the step
// that takes it.
type Ahead interface {
	Log

	// ReadAhead is like Read, but also returns records whose Append has not returned. Such records
	// become durable with the first step that is committed after they were returned. So nothing
	// that follows from them may become visible before Commit has returned. If the log fails or the
	// process ends before that, the records may be lost.
	//
	// While the reader is open, an Append may wait briefly for such a step.
	ReadAhead(ctx context.Context, partition int, after uint64) (Reader, error)
}

// ReadAhead calls [Ahead.ReadAhead] if the log supports it, and [Log.Read] otherwise.
func ReadAhead(ctx context.Context, l Log, partition int, after uint64) (Reader, error) {
	if a, ok := l.(Ahead); ok {
		return a.ReadAhead(ctx, partition, after)
	}
	return l.Read(ctx, partition, after)
}
