package tools

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// Server is the location of the flow. It has one partition, because a cancellation names a thread,
// which may belong to any session.
type Server struct{ dataflow.Process }

// A StopKey names a job.
type StopKey struct {
	Place  Place
	Number uint64
}

// Ports are the ports of the flow.
type Ports struct {
	Sessions  *dataflow.SharedKeyedInputPort[Place, In]
	Transfers *dataflow.SharedKeyedInputPort[string, TransferIn]
	Authorize *dataflow.SharedKeyedInputPort[string, authorize.In] // by runtime; requests of calls that may ask a user go to Sessions

	Told     *dataflow.EntryOutputPort[string, Told]       // by token, for a while
	Alive    *dataflow.EntryOutputPort[Name, struct{}]     // unfinished calls
	Places   *dataflow.EntryOutputPort[Name, Place]        // of threads that have calls or grants
	Bars     *dataflow.EntryOutputPort[Name, struct{}]     // cancellations that found no call, for a while
	Asked    *dataflow.EntryOutputPort[string, Asked]      // by Question.ID
	Answered *dataflow.EntryOutputPort[string, Answered]   // by Question.ID or Message.Lost
	Granted  *dataflow.EntryOutputPort[GrantKey, struct{}] // what threads are granted
	Stops    *dataflow.EntryOutputPort[StopKey, Cause]     // jobs that must end
	Load     *dataflow.SingletonOutputPort[Loads]

	Access  *dataflow.EntryOutputPort[string, authorize.Told]   // by token, for a while
	Settled *dataflow.EntryOutputPort[string, authorize.Class]  // by authorization, for a while
	Open    *dataflow.EntryOutputPort[string, authorize.Opened] // by the digests of the state and of the start page's secret
	Codes   *dataflow.EntryOutputPort[string, struct{}]         // entries of the vault that are needed
	Opens   *dataflow.SingletonOutputPort[int]                  // number of open authorizations
}

// A GrantKey is a [Grant] with the name of its runtime in [Place].
type GrantKey struct {
	At string // Place.Runtime
	Grant
}

// Loads are the loads of all runtimes. Published values are not changed.
type Loads struct {
	All Load
	Of  map[string]Load // of the runtimes with unfinished calls or undelivered messages
}

// Options are the settings of the flow.
type Options struct {
	Rules
	Asked time.Duration // how long a question and its answer are kept
	Jobs  int           // how many jobs run at once
	Do    func(ctx context.Context, at Place, j Job) Outcome
	OAuth func(ctx context.Context, runtime string, j authorize.Job) authorize.Outcome
}

// How long answers are kept for waiting requests, and how long a cancellation bars an invocation
// that arrives after it (doc/protocol.md §9).
const (
	tellFor = 15 * time.Second
	barFor  = time.Minute
	maxAsks = 1 << 17 // maximum number of kept questions
)

type outs[K comparable, V any] = dataflow.UnorderedKeyedStream[K, V, Server]

// Build adds the flow to f. No other function does.
func Build(f *dataflow.Flow, o Options) *Ports {
	at := dataflow.At[Server](f)
	p := new(Ports)
	sessions, ins := keyedstream.SharedInput[Place, In](at, "sessions")
	transfers, orders := keyedstream.SharedInput[string, TransferIn](at, "transfers")
	p.Sessions, p.Transfers = sessions, transfers

	staged, _ := keyedstream.TimedMachine(orders, newTransfer, transfer, outstaged,
		"who asks first decides whether a session is served here or given up, and hears what was decided")
	staged = dataflow.Named("transfer", staged)
	imports := by(staged, func(transfer string, o TransferOut) (Place, In, bool) {
		return o.Place, In{Import: o.Import, Transfer: transfer}, o.Import != nil
	})
	all := keyedstream.Merge(ins, imports)

	said, _ := keyedstream.CallingMachine(all, newSession, func(s **Session, in In, do *turn) { o.take(*s, in, do) },
		func(s **Session, t keyedstream.Timer, do *turn) { o.fire(*s, t, do) },
		keyedstream.Calling(func(ctx context.Context, c keyedstream.Call[Place, Job]) Outcome { return o.Do(ctx, c.Key, c.Request) },
			func(s **Session, j Job, out Outcome, do *turn) { o.outcome(*s, j, out, do) }, keyedstream.CallOptions{Concurrency: o.Jobs}),
		"a session handles what happens to it in the order in which it comes, and every order has one result for each call")
	said = dataflow.Named("session", said)

	told := keyedstream.Merge(
		by(said, func(_ Place, o Out) (string, Told, bool) { return o.Token, read(o.Told), o.Told != nil }),
		by(staged, func(_ string, o TransferOut) (string, Told, bool) { return o.Token, read(o.Told), o.Told != nil }))
	p.Told = once("told", told, keyedstream.Retain{For: tellFor})
	asked := by(said, func(_ Place, o Out) (string, Asked, bool) { return read(o.Asked).ID, read(o.Asked), o.Asked != nil })
	p.Asked = once("asked", asked, keyedstream.Retain{For: o.Asked, Keys: maxAsks})
	answered := by(said, func(_ Place, o Out) (string, Answered, bool) {
		return read(o.Answered).ID, read(o.Answered), o.Answered != nil
	})
	p.Answered = once("answered", answered, keyedstream.Retain{For: o.Asked, Keys: maxAsks})

	p.Alive = shown("alive", by(said, func(_ Place, o Out) (Name, Alive, bool) { return read(o.Alive).Name, read(o.Alive), o.Alive != nil }),
		func(a Alive) (int, struct{}) { return counts(a.Over), struct{}{} })
	p.Places = shown("places", by(said, func(at Place, o Out) (Name, placed, bool) {
		a, g := read(o.Alive), read(o.Grant)
		thread, over := cmp.Or(a.Name.Group, g.Thread), a.Over || g.Over
		return Name{at.Runtime, thread, ""}, placed{at, over}, thread != ""
	}), func(a placed) (int, Place) { return counts(a.Over), a.At })
	p.Granted = shown("granted", by(said, func(at Place, o Out) (GrantKey, Granted, bool) {
		return GrantKey{at.Runtime, read(o.Grant).Grant}, read(o.Grant), o.Grant != nil
	}), func(g Granted) (int, struct{}) { return counts(g.Over), struct{}{} })
	p.Stops = shown("stops", by(said, func(at Place, o Out) (StopKey, Stop, bool) {
		return StopKey{at, read(o.Stop).Number}, read(o.Stop), o.Stop != nil
	}), func(s Stop) (int, Cause) { return counts(s.Over), s.Cause })
	p.Bars = bars(by(said, func(_ Place, o Out) (Name, struct{}, bool) { return read(o.Bar), struct{}{}, o.Bar != nil }))
	p.Load = load(said, staged)
	p.authorize(at, said, o)
	return p
}

// read returns the value that p points to, or the zero value.
func read[T any](p *T) (x T) {
	if p != nil {
		x = *p
	}
	return x
}

// A placed is a call or a grant of a thread.
type placed struct {
	At   Place
	Over bool
}

func counts(over bool) int {
	if over {
		return -1
	}
	return 1
}

// by returns the values that f selects from a stream, by another key.
func by[K, K2 comparable, V, U any, O dataflow.Order](ks dataflow.KeyedStream[K, V, Server, bounds.Unbounded, O, dataflow.ExactlyOnce], f func(K, V) (K2, U, bool)) outs[K2, U] {
	return dataflow.Keyed(dataflow.FilterMap(keyedstream.Entries(ks), func(e dataflow.Entry[K, V]) (dataflow.Entry[K2, U], bool) {
		k, u, ok := f(e.Key, e.Value)
		return dataflow.Entry[K2, U]{Key: k, Value: u}, ok
	}))
}

// once outputs the first value of each key for a while.
func once[V any](name string, ks outs[string, V], r keyedstream.Retain) *dataflow.EntryOutputPort[string, V] {
	first := keyedstream.FirstWithin(keyedstream.AssumeOrder(ks, "a token is answered once, and of two answers of a user the first counts"), r,
		"who asks waits for its answer, and takes it long before it is forgotten")
	return keyedsingleton.Output(dataflow.Named(name, first), name)
}

// shown outputs an entry from the first value of a key until as many have ended as have begun.
func shown[K comparable, V, A any](name string, ks outs[K, V], entry func(V) (int, A)) *dataflow.EntryOutputPort[K, A] {
	ordered := keyedstream.AssumeOrder(ks, "one session says all of a key, in order")
	_, live := keyedstream.Machine(ordered, func() int { return 0 }, func(n *int, v V, do *keyedstream.Turn[K, struct{}, A]) {
		more, a := entry(v)
		if *n += more; *n <= 0 {
			do.Forget()
			return
		}
		do.Decide(a)
	})
	return keyedsingleton.Output(dataflow.Named(name, live), name)
}

// bars outputs each cancellation that found no call, for a while.
func bars(ks outs[Name, struct{}]) *dataflow.EntryOutputPort[Name, struct{}] {
	type turn = keyedstream.TimedTurn[Name, struct{}, struct{}]
	_, live := keyedstream.TimedMachine(ks, func() struct{} { return struct{}{} }, func(_ *struct{}, _ struct{}, do *turn) {
		do.Decide(struct{}{})
		do.ForgetAfter(barFor)
	}, func(*struct{}, keyedstream.Timer, *turn) {}, "a cancellation that is more than a minute ahead of its invocation may come too early")
	return keyedsingleton.Output(dataflow.Named("bars", live), "bars")
}

// load outputs the sums of the loads that sessions and transfers report.
func load[O, O2 dataflow.Order](said dataflow.KeyedStream[Place, Out, Server, bounds.Unbounded, O, dataflow.ExactlyOnce],
	staged dataflow.KeyedStream[string, TransferOut, Server, bounds.Unbounded, O2, dataflow.ExactlyOnce],
) *dataflow.SingletonOutputPort[Loads] {
	of := by(said, func(_ Place, o Out) (string, Load, bool) { l := read(o.Load); return l.Runtime, l.Load, o.Load != nil })
	of = keyedstream.Merge(of, by(staged, func(_ string, o TransferOut) (string, Load, bool) {
		return "", Load{Staged: o.Staged}, o.Staged != 0
	}))
	sum := dataflow.FoldCommutative(keyedstream.Entries(of), func() Loads { return Loads{} },
		func(sum *Loads, e dataflow.Entry[string, Load]) {
			sum.All.add(e.Value)
			if e.Key == "" { // what is remembered belongs to no runtime
				return
			}
			of := maps.Clone(sum.Of) // readers hold the published one
			if of == nil {
				of = make(map[string]Load)
			}
			l := of[e.Key]
			if l.add(e.Value); l == (Load{}) {
				delete(of, e.Key)
			} else {
				of[e.Key] = l
			}
			sum.Of = of
		}, "sums of integers are the same in any order")
	return singleton.Output(dataflow.Named("load", sum), "load")
}
