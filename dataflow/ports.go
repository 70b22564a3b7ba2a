package dataflow

import (
	"context"
	"iter"

	"github.com/millrace/millrace/internal/engine"
)

// An EntryInputPort is a port for putting entries into a [KeyedSingleton]. It is safe for
// concurrent use.
type EntryInputPort[K comparable, V any] entryInputPort[K, V]

// Put adds the entry (k, v). It returns [ErrDuplicateKey] and changes nothing if k was put
// before, and a [KeyError] for a k that cannot be a key. Otherwise it is like [InputPort.Send].
//
// Keys are remembered for as long as the flow runs, except by a port of
// keyedsingleton.InputWithin. Such a port accepts a forgotten key again.
func (p *EntryInputPort[K, V]) Put(ctx context.Context, k K, v V) error {
	in := made(p.in(), "dataflow.EntryInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.EntryInputPort.Put")
	}
	return in.Send(ctx, k, v)
}

// PutBatch adds the entry (ks[i], vs[i]) for each i and returns the result that Put would
// return for each: nil, [ErrDuplicateKey] if the key was put before, here or earlier in the
// batch, or the reason why the entry was not accepted. The second result is nil if all entries
// were accepted or refused as duplicates. Otherwise it is the first other error, or the flow's
// error if the flow failed.
//
// It is cheaper than a Put for each; see [InputPort.SendBatch]. A durable flow waits for the
// outcome of all entries together. PutBatch panics if ks and vs have different lengths. If one
// of ks cannot be a key, nothing is put, and each error is a [KeyError] with the index of the
// first one.
func (p *EntryInputPort[K, V]) PutBatch(ctx context.Context, ks []K, vs []V) ([]error, error) {
	in := made(p.in(), "dataflow.EntryInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.EntryInputPort.PutBatch")
	}
	engine.SameLength("dataflow.EntryInputPort.PutBatch", len(ks), len(vs))
	return in.PutBatch(ctx, ks, vs)
}

// PutNumbered is Put for senders that number their puts, so that a repeated Put has the outcome
// of the first: nil if it put k, and [ErrDuplicateKey] if another Put had done so before; see
// [SharedInputPort.SendNumbered]. The flow remembers the outcome of the last Put of each
// sender. Repeats of earlier ones return nil.
func (p *EntryInputPort[K, V]) PutNumbered(ctx context.Context, sender string, n uint64, k K, v V) error {
	in := made(p.in(), "dataflow.EntryInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.EntryInputPort.PutNumbered")
	}
	return in.SendBy(ctx, sender, n, k, v)
}

// Has reports whether k was put and is remembered; see [EntryInputPort.Put]. It sees every Put
// that returned before Has was called, also in another process that shares the flow, or before
// a crash. It may or may not see a Put that has not returned.
//
// In memory it is a lookup under the location's lock, also after the flow has ended. A durable
// flow writes a record for it, like a Put that adds nothing, and answers when that is in the
// history. Cache a true result, since it stays true, unless the port forgets keys. The errors
// are those of such a Put.
func (p *EntryInputPort[K, V]) Has(ctx context.Context, k K) (bool, error) {
	return made(p.in(), "dataflow.EntryInputPort").Has(ctx, k)
}

// Close says that no further entry comes; see [InputPort.Close].
func (p *EntryInputPort[K, V]) Close() { made(p.in(), "dataflow.EntryInputPort").Base().Close() }

// An OutputPort is a port for reading the elements of a [Stream]. It is safe for concurrent
// use; each element goes to one reader.
//
// Nothing is lost: a location with more than [Options].Buffer elements waiting at an output
// stops running until half of them have been read.
type OutputPort[T any] outputPort[T]

// Next returns the next element, waiting for one until ctx ends. It returns io.EOF when the
// flow has ended and everything was read, and the flow's error if it failed. If ctx ends first
// it returns ctx's cause, in a [BlockedError] if the element cannot come because another output
// is not read. Several goroutines that read one output of a durable flow use
// [OutputPort.Receive].
func (p *OutputPort[T]) Next(ctx context.Context) (T, error) {
	out := made(p.out(), "dataflow.OutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.OutputPort.Next")
	}
	return out.Next(ctx)
}

// Receive is [OutputPort.Next] for readers that handle elements of a durable flow concurrently.
// After a crash such a flow delivers an element again unless it was handled. An element that
// Next returned counts as handled when Next is called again by any goroutine. An element that
// Receive returned counts as handled when it is acknowledged with [Delivery.Ack]. An element
// that is not acknowledged is kept, with all later elements of its partition, until the
// partition stops at [Options].Buffer elements. In memory nothing is delivered again, and Ack
// does nothing.
//
// Two readers that both need every element use an output each. A stream can have any number of
// outputs. Each has a name and keeps its own position, also over a crash.
func (p *OutputPort[T]) Receive(ctx context.Context) (Delivery[T], error) {
	out := made(p.out(), "dataflow.OutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.OutputPort.Receive")
	}
	x, ack, err := out.Receive(ctx)
	return Delivery[T]{x, ack}, err
}

// A Delivery is an element of an [OutputPort] that its reader acknowledges.
type Delivery[T any] struct {
	Value T
	ack   func()
}

// Ack says that the element was handled, so it is not delivered again. A second call does
// nothing. Ack does not wait until the history has recorded it, so a crash immediately after
// may deliver the element once more. Any goroutine may call it, in any order. After the flow
// has ended it has no effect.
func (d Delivery[T]) Ack() {
	if d.ack == nil {
		engine.Unmade("dataflow.Delivery", "deliveries come from dataflow.OutputPort.Receive")
	}
	d.ack()
}

// ReceiveBatch is [OutputPort.Receive] for up to most elements at once. It returns the elements
// available, at least one, from one partition of the output's location and in its order. It is
// for a reader that stores its own position: the numbers of a partition's elements are the same
// after a restart.
func (p *OutputPort[T]) ReceiveBatch(ctx context.Context, most int) (Batch[T], error) {
	out := made(p.out(), "dataflow.OutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.OutputPort.ReceiveBatch")
	}
	r, err := out.ReceiveRun(ctx, max(most, 1))
	if err != nil {
		return Batch[T]{}, err
	}
	return Batch[T]{Elements: r.Elements, Partition: r.Partition, First: r.First, ack: r.Ack}, nil
}

// Given returns how many elements a partition has given to the output since its history began,
// read or not. Owned says that this process owns the partition, so that its elements come here;
// if not, the number is zero. In memory there is only partition 0, which is owned.
//
// Given reads between two steps of the partition. If a step goes on until ctx ends, the error
// says so. A process that has lost a partition may notice it a moment later.
func (p *OutputPort[T]) Given(ctx context.Context, partition int) (n uint64, owned bool, err error) {
	out := made(p.out(), "dataflow.OutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.OutputPort.Given")
	}
	return out.GivenBy(ctx, partition)
}

// A Batch holds elements of an [OutputPort] that its reader acknowledges together.
type Batch[T any] struct {
	Elements  []T
	Partition int    // number across all locations; 0 in memory
	First     uint64 // number of the first element; a partition numbers its elements from 1
	ack       func()
}

// Ack says that the elements were handled; see [Delivery.Ack].
func (b Batch[T]) Ack() {
	if b.ack == nil {
		engine.Unmade("dataflow.Batch", "batches come from dataflow.OutputPort.ReceiveBatch")
	}
	b.ack()
}

// All iterates over the elements until the flow or ctx ends. [App.Err] says whether
// the flow failed.
func (p *OutputPort[T]) All(ctx context.Context) iter.Seq[T] {
	out := made(p.out(), "dataflow.OutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.OutputPort.All")
	}
	return func(yield func(T) bool) {
		for {
			x, err := out.Next(ctx)
			if err != nil || !yield(x) {
				return
			}
		}
	}
}

// An EntryOutputPort is a port for reading, by key, the entries of a [KeyedSingleton] whose
// values never change. It is safe for concurrent use. Entries are kept until they are taken.
//
// In a durable flow that several processes share, the entries are in the process that owns the
// key's partition. Await and Take ask that process; Get and Len see only the entries of this
// process.
type EntryOutputPort[K comparable, V any] entryOutputPort[K, V]

// Await returns the value of k as soon as there is one. It may be called any number of times
// for a key. It returns io.EOF if the flow ended without a value, the flow's error if it
// failed, a [KeyError] for a k that cannot be a key, and ctx's cause if that ends first: in a
// [BlockedError] if the entry cannot come because another output is not read.
func (p *EntryOutputPort[K, V]) Await(ctx context.Context, k K) (V, error) {
	out := made(p.out(), "dataflow.EntryOutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.EntryOutputPort.Await")
	}
	return out.Await(ctx, k, false)
}

// Take is [EntryOutputPort.Await] that also forgets the entry, so that memory holds only
// entries that were not yet taken. Exactly one of the concurrent Takes of an entry returns it,
// and the others return [ErrTaken]. A Take that begins after the entry is gone waits as for an
// entry that has not come, since taken keys are not remembered.
//
// In memory, a Take whose ctx ends when the entry comes either returns the entry or leaves it
// for the next. In a durable flow the history decides, across all processes. Each Take is then
// a record for a step, and costs as much as a Put. If Take returns a value together with an
// error other than ErrTaken, as when ctx ends, it is unknown whether the entry was taken. A
// process that ends at that moment may have taken an entry that it never saw. To handle every
// entry, Await it, handle it, and then Take it.
func (p *EntryOutputPort[K, V]) Take(ctx context.Context, k K) (V, error) {
	out := made(p.out(), "dataflow.EntryOutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.EntryOutputPort.Take")
	}
	return out.Await(ctx, k, true)
}

// All takes every entry, in the order in which they appeared, and waits for further ones until
// the flow or ctx ends. It is for a service that does not know the keys. [App.Err] says whether
// the flow failed. The entry at which a loop is left has been taken.
//
// Each entry goes to one caller, so several goroutines may range over All at once. A Take that
// waits for a key has precedence. The order holds from the first call of All on: entries from
// before, including those of a durable flow that was restarted, come before all others.
//
// In a durable flow All takes the entries of the partitions that this process owns, each as
// [EntryOutputPort.Take] does: a process that ends at that moment may have taken an entry that
// it never saw. To handle every entry despite crashes, read an output of keyedsingleton.Entries
// with [OutputPort.Receive].
func (p *EntryOutputPort[K, V]) All(ctx context.Context) iter.Seq2[K, V] {
	out := made(p.out(), "dataflow.EntryOutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.EntryOutputPort.All")
	}
	return func(yield func(K, V) bool) {
		for {
			k, v, err := out.TakeNext(ctx)
			if err != nil || !yield(k, v) {
				return
			}
		}
	}
}

// Get returns the value of k if the output holds it now. It reports false for a k that cannot
// be a key.
func (p *EntryOutputPort[K, V]) Get(k K) (V, bool) {
	return made(p.out(), "dataflow.EntryOutputPort").Get(k)
}

// Len returns how many entries the output holds now.
func (p *EntryOutputPort[K, V]) Len() int { return made(p.out(), "dataflow.EntryOutputPort").Len() }
