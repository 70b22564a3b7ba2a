package connect

import (
	"context"
	"errors"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
)

// A Port is where the records of a [Source] enter a flow. Its markers are those of the stream that it gives, so that a source of
// other markers does not compile with it. The flow keeps the floors of splits beside it, some 150 bytes each, of those that are
// gone as well.
type Port[K comparable, V any, O dataflow.Order, R dataflow.Retries] struct {
	_ [0]func(O, R)
	inlet[K, V]
}

// An inlet is what a port is, whatever its markers are.
type inlet[K comparable, V any] struct {
	input  string // its name
	send   func(ctx context.Context, split string, b *Batch[K, V]) error
	floors *dataflow.SharedKeyedInputPort[place, floor] // nil where records have no positions

	notices *dataflow.SharedKeyedInputPort[string, window.SplitNotice] // nil if nobody is told; see SplitsInput
}

// A place names a split and the input that it is read for.
type place struct{ Input, Split string }

// A floor is what the history knows of a split: all records up to Position are durable. It is a hint for less work, and only too
// low: a split that is read from an earlier position gives records that partitions have and drop.
type floor struct {
	Position dataflow.Position
	Version  string // of the source's decoding; see [Options]
	Clean    bool   // nothing behind Position was sent
	Asked    uint64 // number by which somebody asked for the floor last; see place in attach.go
}

// Input returns a port for a source in which the values of a key have an order, and the stream of its records; see [BySplit] and
// [ByKey].
//
// The port is an input of the flow like any other, with the name that it is given: a flow that is simulated or tested has a
// [Port.Send] instead of a source.
func Input[K comparable, V any, L dataflow.Location](at L, name string) (
	*Port[K, V, dataflow.TotalOrder, dataflow.ExactlyOnce], dataflow.KeyedStream[K, V, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce],
) {
	in, records := keyedstream.Input[K, V](at, name)
	return &Port[K, V, dataflow.TotalOrder, dataflow.ExactlyOnce]{inlet: inlet[K, V]{input: name, floors: floorsOf(at, name), send: func(ctx context.Context, split string, b *Batch[K, V]) error {
		_, err := in.SendBatchAt(ctx, split, b.At, b.Keys, b.Values)
		return err
	}}}, records
}

// WholeInput returns a port for a source with one split, and the stream of its records in their order; see [Whole].
func WholeInput[V any, L dataflow.Location](at L, name string) (
	*Port[struct{}, V, dataflow.TotalOrder, dataflow.ExactlyOnce], dataflow.Stream[V, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce],
) {
	in, records := dataflow.Input[V](at, name)
	return &Port[struct{}, V, dataflow.TotalOrder, dataflow.ExactlyOnce]{inlet: inlet[struct{}, V]{input: name, floors: floorsOf(at, name), send: func(ctx context.Context, split string, b *Batch[struct{}, V]) error {
		_, err := in.SendBatchAt(ctx, split, b.At, b.Values)
		return err
	}}}, records
}

// UnorderedInput returns a port for a source without order, and the stream of its records; see [Unordered].
func UnorderedInput[K comparable, V any, L dataflow.Location](at L, name string) (
	*Port[K, V, dataflow.NoOrder, dataflow.ExactlyOnce], dataflow.KeyedStream[K, V, L, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce],
) {
	in, records := keyedstream.SharedInput[K, V](at, name)
	return &Port[K, V, dataflow.NoOrder, dataflow.ExactlyOnce]{inlet: inlet[K, V]{input: name, floors: floorsOf(at, name), send: func(ctx context.Context, split string, b *Batch[K, V]) error {
		_, err := in.SendBatchAt(ctx, split, b.At, b.Keys, b.Values)
		return err
	}}}, records
}

// DeliveredInput returns a port for a source whose records may come again, and the stream of its records; see [Delivered].
func DeliveredInput[K comparable, V any, L dataflow.Location](at L, name string) (
	*Port[K, V, dataflow.NoOrder, dataflow.AtLeastOnce], dataflow.KeyedStream[K, V, L, bounds.Unbounded, dataflow.NoOrder, dataflow.AtLeastOnce],
) {
	in, records := keyedstream.RetriedInput[K, V](at, name)
	return &Port[K, V, dataflow.NoOrder, dataflow.AtLeastOnce]{inlet: inlet[K, V]{input: name, send: func(ctx context.Context, _ string, b *Batch[K, V]) error {
		_, err := in.SendBatch(ctx, b.Keys, b.Values)
		return err
	}}}, records
}

// EntryPort returns a port for a source whose records have a key that says which they are, of an input of entries. So a record
// that comes again is taken once, and each key that was taken is remembered. One that a durable flow has put into quarantine is
// taken, too.
func EntryPort[K comparable, V any](in *dataflow.EntryInputPort[K, V], name string) *Port[K, V, dataflow.NoOrder, dataflow.AtLeastOnce] {
	return &Port[K, V, dataflow.NoOrder, dataflow.AtLeastOnce]{inlet: inlet[K, V]{input: name, send: func(ctx context.Context, _ string, b *Batch[K, V]) error {
		errs, err := in.PutBatch(ctx, b.Keys, b.Values)
		for _, e := range errs {
			if e != nil && !errors.Is(e, dataflow.ErrDuplicateKey) && !errors.Is(e, dataflow.ErrQuarantined) {
				return e
			}
		}
		if errors.Is(err, dataflow.ErrQuarantined) {
			return nil
		}
		return err
	}}}
}

// floorsOf keeps the last floor of each split of an input.
func floorsOf[L dataflow.Location](at L, name string) *dataflow.SharedKeyedInputPort[place, floor] {
	in, notes := keyedstream.SharedInput[place, floor](at, name+" floors")
	floors := keyedstream.AssumeOrder(notes, "two processes may read a split for a moment, and any floor of either is true")
	keyedstream.Fold(floors, func() floor { return floor{Clean: true} }, func(last *floor, x floor) {
		if x.Asked != 0 {
			last.Asked = x.Asked
		} else if !last.Position.After(x.Position) {
			x.Asked = last.Asked
			*last = x
		}
	})
	return in
}

// Send sends records to a port without a source, as from a split with that ID: for tests, and for the simulator. Records whose
// positions are not behind those of before are dropped.
func (p *Port[K, V, O, R]) Send(ctx context.Context, split string, b *Batch[K, V]) error {
	return p.inlet.send(ctx, split, b)
}

// A DeadLetterPort is where records enter a flow that could not be decoded; see [Options].DeadLetters.
type DeadLetterPort struct {
	in      *dataflow.SharedKeyedInputPort[string, Poison]
	repeats bool // the stream says that letters may come again
}

// DeadLetters returns a port for records that could not be decoded, and the stream of them, by the name of the port that they
// were read for. Each is there once. One port serves any number of sources whose records have positions; [Attach] panics if it is
// given for one that is [Delivered], since its records, and so its letters, may come again.
func DeadLetters[L dataflow.Location](at L, name string) (
	*DeadLetterPort, dataflow.KeyedStream[string, Poison, L, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce],
) {
	in, letters := keyedstream.SharedInput[string, Poison](at, name)
	return &DeadLetterPort{in: in}, letters
}

// RepeatedDeadLetters is [DeadLetters] for any source: letters may come again.
func RepeatedDeadLetters[L dataflow.Location](at L, name string) (
	*DeadLetterPort, dataflow.KeyedStream[string, Poison, L, bounds.Unbounded, dataflow.NoOrder, dataflow.AtLeastOnce],
) {
	in, letters := keyedstream.RetriedInput[string, Poison](at, name)
	return &DeadLetterPort{in: in, repeats: true}, letters
}

// add adds letters of records without positions, which may come again.
func (p *DeadLetterPort) add(ctx context.Context, input string, bad []Poison) error {
	inputs := make([]string, len(bad))
	for i := range bad {
		inputs[i] = input
	}
	_, err := p.in.SendBatch(ctx, inputs, bad)
	return err
}

// send adds letters, each once.
func (p *DeadLetterPort) send(ctx context.Context, input string, s Split, bad []Poison) error {
	at, inputs := make([]dataflow.Position, len(bad)), make([]string, len(bad))
	for i := range bad {
		at[i], inputs[i] = bad[i].At, input
	}
	// One split may be read for several inputs, which have their letters each.
	_, err := p.in.SendBatchAt(ctx, input+"/"+s.ID, at, inputs, bad)
	return err
}
