package window

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/windows"
)

// A SplitState is what a [SplitNotice] says of a split.
type SplitState uint8

const (
	// SplitFound: there is such a split, and it will be read. It changes nothing about a split that is known.
	SplitFound SplitState = windows.SplitFound
	// SplitRead: a reader begins to read the split.
	SplitRead SplitState = windows.SplitRead
	// SplitIdle: nothing comes, and nothing waits behind what has come.
	SplitIdle SplitState = windows.SplitIdle
	// SplitEnded: the split is at its end.
	SplitEnded SplitState = windows.SplitEnded
)

// A SplitNotice says what has become of a split of a source; see [StampSplits].
type SplitNotice struct {
	Is SplitState

	// Reader is the number of the reader, another one each time that a reader begins. SplitIdle and SplitEnded of any but the last
	// reader are ignored. A notice with the number 0 never is.
	Reader uint64

	// ID tells a split from an earlier one of the same name. When it changes, the mark of the earlier one is forgotten.
	ID string
}

// StampSplits is [Stamp] of a source that is read in parts, each in its order and none in step with the others: the partitions of a
// topic, a number of files. The keys of ks are the names of the splits, and notices, which connect.SplitsInput gives, say which
// there are and which of them are silent.
//
// Each split has a mark of its own, which its own elements move as disorder says. So a split that is read faster than another one
// makes nothing of that late. The mark of the events is the least of those of the splits that are waited for: those that were found
// or have an element, and are not idle and have not ended. It only grows:
//
//   - A split that is found, or read by another reader, is waited for from where the mark is. So splits that are all found before the
//     first element comes hold the mark until each has one, or is idle.
//   - A split that is idle is not waited for. When it speaks again, or is read anew, it is waited for from where the mark is then:
//     what it has from before that is late.
//   - When none is waited for, the mark is the greatest that a split had. It is the same whichever of them is the last one to fall silent.
//
// So nobody waits for a split that is gone, if it has ended or was idle before. One that was neither holds the mark until a notice
// says that it has ended.
//
// For each split some 100 bytes are remembered, and for one that has ended its name. They are in the state of a durable flow and
// saved when they have changed. A batch takes a look at all splits if the mark moves.
//
// Each partition of a Cluster has the splits that are placed there, and their mark; see the package's documentation for what is sent
// on from there. In one without splits the mark is [Past].
//
// # Nondeterminism
//
// As long as no split comes or goes, each decides alone which of its elements are late, as with Stamp. When a split is found, falls
// silent and speaks again is the source's business and that of the clock, and where the mark is then depends on the order between
// keys. All of it is in the history, so a replay has the same events and the same late ones.
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
