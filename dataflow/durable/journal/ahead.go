package journal

import "context"

// An Ahead is a [Log] whose records can be read before they are durable, by the one who makes the
// steps of their partition: the log then needs one sync, and not two, for a record and the step
// that takes it.
type Ahead interface {
	Log

	// ReadAhead is Read, but returns also records whose Append has not returned. They are durable
	// when a step is that was committed after they were returned, so nobody may see what follows
	// from them before Commit has returned. If the log fails, or the process ends, before that,
	// they may be gone.
	//
	// While the reader is open, an Append may wait a moment for such a step.
	ReadAhead(ctx context.Context, partition int, after uint64) (Reader, error)
}

// ReadAhead reads ahead if the log can do it, and else reads what is durable.
func ReadAhead(ctx context.Context, l Log, partition int, after uint64) (Reader, error) {
	if a, ok := l.(Ahead); ok {
		return a.ReadAhead(ctx, partition, after)
	}
	return l.Read(ctx, partition, after)
}
