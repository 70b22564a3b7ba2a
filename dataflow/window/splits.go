package window

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/windows"
)

// A SplitState is the state of a split that a [SplitNotice] reports.
type SplitState uint8

const (
	// SplitFound says that the split exists and will be read. It changes nothing about a known split.
	SplitFound SplitState = windows.SplitFound
	// SplitRead says that a reader begins to read the split.
	SplitRead SplitState = windows.SplitRead
	// SplitIdle says that no element comes, and that none waits to be read.
	SplitIdle SplitState = windows.SplitIdle
	// SplitEnded says that the split is at its end.
	SplitEnded SplitState = windows.SplitEnded
)

// A SplitNotice reports a change of a split of a source; see [StampSplits].
type SplitNotice struct {
	Is SplitState

	// Reader is the number of the reader. Each reader that begins has another one. SplitIdle and
	// SplitEnded from any reader except the last are ignored. A notice with the number 0 is never
	// ignored.
	Reader uint64

	// ID distinguishes a split from an earlier one of the same name. When it changes, the mark of the
	// earlier one is forgotten.
	ID string
}

// StampSplits is [Stamp] for a source that is read in parts, each in its own order and independent of
// the others: the partitions of a topic, or a number of files. The keys of ks are the names of the
// splits. The notices, from connect.SplitsInput, say which splits exist and which of them are silent.
//
// Each split has its own mark, which its elements move as disorder says. So a split that is read faster
// than another does not make the other's elements late. The mark of the events is the smallest mark of
// the splits that are waited for. Those are the splits that were found or have an element, are not idle
// and have not ended. The mark only grows:
//
//   - A split that is found, or read by another reader, is waited for from the current mark on. So
//     splits that are all found before the first element comes hold the mark until each has an
//     element or is idle.
//   - An idle split is not waited for. When it has an element again, or is read anew, it is waited
//     for from the then current mark on: its elements from before that are late.
//   - When no split is waited for, the mark is the greatest that a split had. It is the same
//     whichever of them falls silent last.
//
// So a split that is gone does not hold the mark, if it has ended or was idle before. Otherwise it
// holds the mark until a notice says that it has ended.
//
// StampSplits remembers some 100 bytes for each split, and the name of a split that has ended. They are
// in the state of a durable flow and saved when they have changed. If the mark moves, a batch looks at
// all splits.
//
// Each partition of a Cluster has the splits that are placed there, and their mark; see the package's
// documentation for streams sent on from there. A partition without splits has the mark [Past].
//
// # Nondeterminism
//
// As long as no split comes or goes, each split alone decides which of its elements are late, as with
// Stamp. The source and the clock decide when a split is found, falls silent and has elements again,
// and the mark at that moment depends on the order between keys. All of it is in the history, so a
// replay has the same events and the same late ones.
func StampSplits[K comparable, V any, L dataflow.Location, O dataflow.Ordered, R dataflow.Retries, NoticeOrder dataflow.Order, NoticeRetries dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, bounds.Unbounded, O, R], notices dataflow.KeyedStream[K, SplitNotice, L, bounds.Unbounded, NoticeOrder, NoticeRetries],
	at func(V) Time, disorder Disorder, why dataflow.NonDet,
) (events, late dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O, R]) {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "window.StampSplits", why, at)
	told := engine.Made(engine.KeyedNodeOf(notices), op.Name)
	e, l := windows.StampSplits(n, told, op, instantOf(at), eventOf[V], func(x SplitNotice) windows.Notice {
		return windows.Notice{Is: uint8(x.Is), Reader: x.Reader, ID: x.ID}
	}, clockOf[V, R](op.Name, disorder))
	return newKeyedStream[K, Event[V], L, bounds.Unbounded, O, R](e), newKeyedStream[K, Event[V], L, bounds.Unbounded, O, R](l)
}
