package dataflow

import (
	"context"
	"iter"

	"github.com/millrace/millrace/internal/engine"
)

// An EntryInputPort is where entries enter a [KeyedSingleton]. It is safe for any
// number of goroutines.
type EntryInputPort[K comparable, V any] entryInputPort[K, V]

// Put adds the entry (k, v), once and for ever. It returns [ErrDuplicateKey] and
// changes nothing if k was put before, and a [KeyError] for a k that cannot be a key. For
// the rest it is like [InputPort.Send].
//
// Keys are remembered for as long as the flow runs.
func (p *EntryInputPort[K, V]) Put(ctx context.Context, k K, v V) error {
	in := made(p.in(), "dataflow.EntryInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.EntryInputPort.Put")
	}
	return in.Send(ctx, k, v)
}

// PutBatch adds the entry (ks[i], vs[i]) for each i and returns what Put would return for each:
// nil, [ErrDuplicateKey] if the key was put before, here or earlier in the batch, or why the
// entry was not accepted. The error is nil if only keys were refused. It is the first other
// error if there is one, and the flow's error if the flow failed.
//
// It is cheaper than a Put for each; see [InputPort.SendBatch]. A durable flow waits for the
// outcome of all entries together. PutBatch panics if ks and vs have different lengths. If
// one of ks cannot be a key, nothing is put, and each error is a [KeyError] with the index of
// the first one.
func (p *EntryInputPort[K, V]) PutBatch(ctx context.Context, ks []K, vs []V) ([]error, error) {
	in := made(p.in(), "dataflow.EntryInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.EntryInputPort.PutBatch")
	}
	engine.SameLength("dataflow.EntryInputPort.PutBatch", len(ks), len(vs))
	return in.PutBatch(ctx, ks, vs)
}

// PutNumbered is Put for senders that count what they put, so that a Put that is made again
// has the outcome that it had: nil if this one has put k, and [ErrDuplicateKey] if another
// one has; see [SharedInputPort.SendNumbered]. The outcome is remembered of the last Put of
// each sender. Of those before, only that they were made: they return nil.
func (p *EntryInputPort[K, V]) PutNumbered(ctx context.Context, sender string, n uint64, k K, v V) error {
	in := made(p.in(), "dataflow.EntryInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.EntryInputPort.PutNumbered")
	}
	return in.SendBy(ctx, sender, n, k, v)
}

// Has reports whether k was put. It sees every Put that returned before Has was called, also
// if that was in another process that shares the flow, or before a crash. Of a Put that has
// not returned it says either.
//
// In memory it is a lookup under the location's lock, also after the flow has ended. A
// durable flow writes a record for it, like a Put that adds nothing, and answers when that is
// in the history: remember what was true, which stays so. The error is that of such a Put.
func (p *EntryInputPort[K, V]) Has(ctx context.Context, k K) (bool, error) {
	return made(p.in(), "dataflow.EntryInputPort").Has(ctx, k)
}

// Close says that no further entry comes; see [InputPort.Close].
func (p *EntryInputPort[K, V]) Close() { made(p.in(), "dataflow.EntryInputPort").Base().Close() }

// An OutputPort is where the elements of a [Stream] leave. It is safe for any number
// of goroutines; each element is read by one of them.
//
// Nothing is lost: a location with more than [Options].Buffer elements waiting at an
// output stops running until somebody has read half of them.
type OutputPort[T any] outputPort[T]

// Next returns the next element, waiting for one until ctx ends. It returns io.EOF
// when the flow has ended and everything was read, and the flow's error if it failed. If
// ctx ends first it returns its cause, in a [BlockedError] if what it waits for cannot
// come because nobody reads another output. Several goroutines that read the output of a durable
// flow use [OutputPort.Receive].
func (p *OutputPort[T]) Next(ctx context.Context) (T, error) {
	out := made(p.out(), "dataflow.OutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.OutputPort.Next")
	}
	return out.Next(ctx)
}

// Receive is [OutputPort.Next] for readers that handle elements at the same time in a durable flow.
// Such a flow gives an element again after a crash if it was not handled. Of an element that Next
// has returned it takes that for granted as soon as anybody calls Next again; of one that Receive
// has returned, when it is acknowledged with [Delivery.Ack]. An element that nobody acknowledges
// is kept, with all that its partition has given since, until the partition stops at
// [Options].Buffer elements. In memory nothing is given again, and Ack does nothing.
//
// Two readers that both want every element have an output each: a stream can have any number of
// outputs, and each has a name and keeps its own place, also over a crash.
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

// Ack says that the element was handled: it is not given again. A second call does nothing. It
// does not wait for the history to have it, so a crash in the next moment gives the element once
// more. It may be called by any goroutine, in any order, also after the flow has ended, when it
// comes too late.
func (d Delivery[T]) Ack() {
	if d.ack == nil {
		engine.Unmade("dataflow.Delivery", "deliveries come from dataflow.OutputPort.Receive")
	}
	d.ack()
}

// ReceiveBatch is [OutputPort.Receive] of up to most elements at once: those that are there, one at least, of one partition of the
// output's location and in its order. It is for a reader who keeps how far it is: the numbers of a partition's elements are the
// same after a restart.
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

// Given returns how many elements a partition has given to the output since its history began, read or not. Owned says that this
// process owns the partition, so that its elements come here; if not, the number is zero. In memory there is partition 0, and it is
// owned.
//
// It is looked at between two steps of the partition. The error says if one went on until ctx ended. A process that has lost a
// partition may learn it a moment later.
func (p *OutputPort[T]) Given(ctx context.Context, partition int) (n uint64, owned bool, err error) {
	out := made(p.out(), "dataflow.OutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.OutputPort.Given")
	}
	return out.GivenBy(ctx, partition)
}

// A Batch is elements of an [OutputPort] that its reader acknowledges together.
type Batch[T any] struct {
	Elements  []T
	Partition int    // number, over all locations; 0 in memory
	First     uint64 // the first element has this number, the next one the next; those of a partition begin with 1
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

// An EntryOutputPort is where the entries of a [KeyedSingleton] whose values never
// change are read by key. It is safe for any number of goroutines. Entries are kept
// until they are taken.
//
// In a durable flow that several processes share, the entries are in the process that owns the
// key's partition. Await and Take ask it; Get and Len see what this process has.
type EntryOutputPort[K comparable, V any] entryOutputPort[K, V]

// Await returns the value of k as soon as there is one, however often it is called.
// It returns io.EOF if the flow ended without one, the flow's error if it failed,
// a [KeyError] for a k that cannot be a key, and ctx's cause if that ends first:
// in a [BlockedError] if the entry cannot come because nobody reads another output.
func (p *EntryOutputPort[K, V]) Await(ctx context.Context, k K) (V, error) {
	out := made(p.out(), "dataflow.EntryOutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.EntryOutputPort.Await")
	}
	return out.Await(ctx, k, false)
}

// Take is [EntryOutputPort.Await] that also forgets the entry, so that memory holds
// only what nobody has asked for yet. Of all who take an entry one has it, and the others
// return [ErrTaken]. One that asks when it is gone waits as for an entry that has not come:
// nobody remembers what was taken.
//
// In memory, one whose ctx ends in the moment in which the entry comes has it or leaves it for
// the next. In a durable flow the history decides, whichever processes ask, and each Take is
// a record that a step has to take: it costs what a Put costs. If an error other than
// ErrTaken comes with a value, as when ctx ends, nobody knows whether the entry was taken. A
// process that ends in that moment has taken what it never saw: to handle every entry, Await
// it, handle it, and Take it then.
func (p *EntryOutputPort[K, V]) Take(ctx context.Context, k K) (V, error) {
	out := made(p.out(), "dataflow.EntryOutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.EntryOutputPort.Take")
	}
	return out.Await(ctx, k, true)
}

// All takes every entry, in the order in which they appeared, and waits for those to come until
// the flow or ctx ends: it is for a service that knows no keys to ask for. [App.Err] says whether
// the flow failed. The entry at which a loop is left has been taken.
//
// Of all who take an entry one has it, so several goroutines may range over All at once, and a
// Take that waits for a key comes first. The order holds from the first call of All on: what
// was there before, also because a durable flow was started again, comes before all else.
//
// In a durable flow All takes the entries of the partitions that this process owns, each as
// [EntryOutputPort.Take] does: a process that ends in that moment has taken what it never saw.
// To handle every entry also over a crash, read an output of keyedsingleton.Entries with
// [OutputPort.Receive].
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

// Get returns the value of k if it is there now. Of what cannot be a key there is none.
func (p *EntryOutputPort[K, V]) Get(k K) (V, bool) {
	return made(p.out(), "dataflow.EntryOutputPort").Get(k)
}

// Len returns how many entries are there now.
func (p *EntryOutputPort[K, V]) Len() int { return made(p.out(), "dataflow.EntryOutputPort").Len() }
