package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/commands"
	"github.com/leanovate/gopter/gen"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// An act is an action on a running flow from outside.
type act struct {
	Do   string
	K, V int
}

func (a act) String() string { return fmt.Sprintf("%s(%d, %d)", a.Do, a.K, a.V) }

// A machine is the expected behavior of a flow from outside: a state, and the answer to each act.
type machine[S any] struct {
	acts  []string
	start S
	step  func(s S, a act) (S, string) // does not change s
	flow  func(ctx context.Context) (do func(act) string, app *dataflow.App)
}

// A said is a state of a machine with its last answer.
type said[S any] struct {
	s      S
	answer string
}

// A running is a flow under test.
type running struct {
	do   func(act) string
	stop func()
}

// behaves performs random acts on a flow and a machine side by side, and shrinks a sequence for
// which they differ. It finds what a single history cannot show: answers that depend on earlier
// requests.
func behaves[S any](t *testing.T, m machine[S]) {
	t.Helper()
	command := func(a act) commands.Command {
		return &commands.ProtoCommand{
			Name:    a.String(),
			RunFunc: func(sut commands.SystemUnderTest) commands.Result { return sut.(*running).do(a) },
			NextStateFunc: func(state commands.State) commands.State {
				s, answer := m.step(state.(said[S]).s, a)
				return said[S]{s, answer}
			},
			PostConditionFunc: func(state commands.State, result commands.Result) *gopter.PropResult {
				if got, want := result.(string), state.(said[S]).answer; got != want {
					return gopter.NewPropResult(false, fmt.Sprintf("%v says %q, want %q", a, got, want))
				}
				return gopter.NewPropResult(true, "")
			},
		}
	}
	names := make([]any, len(m.acts))
	for i, name := range m.acts {
		names[i] = name
	}
	system := &commands.ProtoCommands{
		InitialStateGen: gen.Const(said[S]{s: m.start}),
		NewSystemUnderTestFunc: func(commands.State) commands.SystemUnderTest {
			ctx, cancel := context.WithCancel(context.Background())
			do, app := m.flow(ctx)
			return &running{do, func() {
				cancel()
				_ = app.Wait() // it ends because its context is canceled
			}}
		},
		DestroySystemUnderTestFunc: func(sut commands.SystemUnderTest) { sut.(*running).stop() },
		GenCommandFunc: func(commands.State) gopter.Gen {
			return gopter.CombineGens(gen.OneConstOf(names...), gen.IntRange(0, 3), gen.IntRange(0, 9)).Map(func(v []any) commands.Command {
				return command(act{v[0].(string), v[1].(int), v[2].(int)})
			})
		},
	}
	params := gopter.DefaultTestParametersWithSeed(int64(*seed))
	params.MinSuccessfulTests, params.MaxSize = 100, 40
	props := gopter.NewProperties(params)
	props.Property(t.Name(), commands.Prop(system))
	var report bytes.Buffer
	if !props.Run(gopter.NewFormatedReporter(false, 100, &report)) {
		t.Errorf("%s\n%s", &report, rerun(t))
	}
}

// with returns a copy of m with one more entry.
func with[V any](m map[int]V, k int, v V) map[int]V {
	m = maps.Clone(m)
	m[k] = v
	return m
}

func start(ctx context.Context, flow *dataflow.Flow) *dataflow.App {
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		panic(err)
	}
	return app
}

// word returns an answer in the form that both sides use.
func word(v int, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(v)
}

// TestEntriesBehave checks keyedsingleton.Input and Output: a key is put once, its value stays,
// and a taken entry is gone.
func TestEntriesBehave(t *testing.T) {
	t.Run("kept", func(t *testing.T) { entriesBehave(t) })
	t.Run("counted", func(t *testing.T) { entriesBehave(t, numbers(1)) })
}

func entriesBehave(t *testing.T, how ...dataflow.Sequence[int]) {
	type state struct {
		put, there map[int]int
		closed     bool
	}
	asked := errors.New("context canceled")
	absent := func(s state) error {
		if s.closed {
			return io.EOF
		}
		return asked
	}
	behaves(t, machine[state]{
		acts:  []string{"put", "put", "put", "ask", "ask", "await", "take", "get", "len", "close"},
		start: state{put: map[int]int{}, there: map[int]int{}},
		step: func(s state, a act) (state, string) {
			v, ok := s.there[a.K]
			switch a.Do {
			case "put", "ask":
				if _, twice := s.put[a.K]; twice {
					return s, word(0, dataflow.ErrDuplicateKey)
				}
				if s.closed {
					return s, word(0, dataflow.ErrClosed)
				}
				s.put = with(s.put, a.K, a.V)
				if a.Do == "ask" {
					return s, word(a.V+1, nil)
				}
				s.there = with(s.there, a.K, a.V+1)
				return s, word(0, nil)
			case "await", "take":
				if !ok {
					return s, word(0, absent(s))
				}
				if a.Do == "take" {
					s.there = maps.Clone(s.there)
					delete(s.there, a.K)
				}
				return s, word(v, nil)
			case "get":
				return s, fmt.Sprint(v, ok)
			case "len":
				return s, fmt.Sprint(len(s.there))
			}
			s.closed = true
			return s, "closed"
		},
		flow: func(ctx context.Context) (func(act) string, *dataflow.App) {
			flow := dataflow.New()
			in, entries := keyedsingleton.Input[int, int](dataflow.At[here](flow), "in", how...)
			out := keyedsingleton.Output(keyedsingleton.Map(entries, inc), "out")
			app := start(ctx, flow)
			impatient, cancel := context.WithCancel(ctx)
			cancel()
			asker := keyedsingleton.Ask(in, out)
			return func(a act) string {
				switch a.Do {
				case "put":
					return word(0, in.Put(ctx, a.K, a.V))
				case "ask":
					return word(asker.Ask(ctx, a.K, a.V))
				case "await":
					return word(out.Await(impatient, a.K))
				case "take":
					return word(out.Take(impatient, a.K))
				case "get":
					v, ok := out.Get(a.K)
					return fmt.Sprint(v, ok)
				case "len":
					return fmt.Sprint(out.Len())
				}
				in.Close()
				return "closed"
			}, app
		},
	})
}

// TestFoldBehaves checks keyedstream.Fold, read by a snapshot: a read returns all that was sent before.
func TestFoldBehaves(t *testing.T) {
	behaves(t, machine[map[int]int]{
		acts:  []string{"send", "send", "read"},
		start: map[int]int{},
		step: func(s map[int]int, a act) (map[int]int, string) {
			if a.Do == "send" {
				return with(s, a.K, fold(s[a.K], a.V)), "sent"
			}
			v, ok := s[a.K]
			return s, fmt.Sprintf("[%d: %v %v of %d]", a.K, v, ok, len(s))
		},
		flow: func(ctx context.Context) (func(act) string, *dataflow.App) {
			flow := dataflow.New()
			at := dataflow.At[here](flow)
			in, values := keyedstream.Input[int, int](at, "values")
			reads, read := dataflow.Input[int](at, "reads")
			sums := keyedstream.Fold(values, zero, func(acc *int, v int) { *acc = fold(*acc, v) })
			tick := slice.At(at)
			now := slice.Passive(slice.SnapshotEntries(tick, sums, "a read sees what was sent before it"))
			view := keyedsingleton.IntoSingleton(now)
			answers := dataflow.CrossSingleton(slice.Batch(tick, read, "each read is answered alone"), view)
			out := dataflow.Output(slice.Emit(answers), "answers")
			app := start(ctx, flow)
			return func(a act) string {
				if a.Do == "send" {
					if err := in.Send(ctx, a.K, a.V); err != nil {
						return err.Error()
					}
					return "sent"
				}
				if err := reads.Send(ctx, a.K); err != nil {
					return err.Error()
				}
				p, err := out.Next(ctx)
				if err != nil {
					return err.Error()
				}
				v, ok := p.Second.Get(p.First)
				return fmt.Sprintf("[%d: %v %v of %d]", p.First, v, ok, p.Second.Len())
			}, app
		},
	})
}

// TestEarlyStopBehaves checks keyedstream.FoldEarlyStop: a key completes once, and later values
// change nothing.
func TestEarlyStopBehaves(t *testing.T) {
	type state struct{ open, done map[int]int }
	const enough = 12
	behaves(t, machine[state]{
		acts:  []string{"send", "send", "send", "get"},
		start: state{map[int]int{}, map[int]int{}},
		step: func(s state, a act) (state, string) {
			v, ok := s.done[a.K]
			switch {
			case a.Do == "get":
				return s, fmt.Sprint(v, ok, len(s.done))
			case ok:
			case s.open[a.K]+a.V >= enough:
				s.done = with(s.done, a.K, s.open[a.K]+a.V)
			default:
				s.open = with(s.open, a.K, s.open[a.K]+a.V)
			}
			return s, "sent"
		},
		flow: func(ctx context.Context) (func(act) string, *dataflow.App) {
			flow := dataflow.New()
			in, votes := keyedstream.Input[int, int](dataflow.At[here](flow), "votes")
			won := keyedstream.FoldEarlyStop(votes, zero, func(acc *int, v int) bool { *acc += v; return *acc >= enough })
			out := keyedsingleton.Output(won, "won")
			app := start(ctx, flow)
			return func(a act) string {
				if a.Do == "get" {
					v, ok := out.Get(a.K)
					return fmt.Sprint(v, ok, out.Len())
				}
				if err := in.Send(ctx, a.K, a.V); err != nil {
					return err.Error()
				}
				return "sent"
			}, app
		},
	})
}

// TestStateBehaves checks the state of a slice: a value and entries carried from run to run. Each
// new value is computed from the previous two.
func TestStateBehaves(t *testing.T) {
	type state struct {
		before, last int
		seen         map[int]int
	}
	text := func(s state) string {
		return fmt.Sprint(s.before, s.last, slices.Sorted(maps.Keys(s.seen)), slices.Sorted(maps.Values(s.seen)))
	}
	behaves(t, machine[state]{
		acts:  []string{"send", "forget"},
		start: state{1, 1, map[int]int{}},
		step: func(s state, a act) (state, string) {
			s.before, s.last = s.last, (s.before+s.last+a.V)%97
			if a.Do == "send" {
				s.seen = with(s.seen, a.K, s.seen[a.K]+a.V)
			} else {
				s.seen = maps.Clone(s.seen)
				delete(s.seen, a.K)
			}
			return s, text(s)
		},
		flow: func(ctx context.Context) (func(act) string, *dataflow.App) {
			flow := dataflow.New()
			at := dataflow.At[here](flow)
			in, acts := dataflow.Input[act](at, "acts")
			tick := slice.At(at)
			now := slice.Batch(tick, acts, "each act is a run, since each is waited for")
			before, keepBefore := slice.State(tick, 1)
			last, keepLast := slice.State(tick, 1)
			total := dataflow.Sum(dataflow.Map(now, func(a act) int { return a.V }))
			next := singleton.Map(singleton.Zip(singleton.Zip(before, last), total), func(p dataflow.Pair[dataflow.Pair[int, int], int]) int {
				return (p.First.First + p.First.Second + p.Second) % 97
			})
			keepBefore(last) // last of this run is before of the next
			keepLast(next)
			seen, keepSeen := slice.StateEntries[int, int](tick)
			sent, forgotten := dataflow.Partition(now, func(a act) bool { return a.Do == "send" })
			all := keyedstream.Chain(keyedsingleton.IntoKeyedStream(seen),
				keyedstream.Map(dataflow.KeyBy(sent, func(a act) int { return a.K }), func(a act) int { return a.V }))
			left := keyedsingleton.WithoutKeys(keyedstream.Sum(all), dataflow.Map(forgotten, func(a act) int { return a.K }))
			keepSeen(left)
			both := singleton.Zip(singleton.Zip(last, next), keyedsingleton.IntoSingleton(left))
			out := dataflow.Output(slice.Emit(singleton.IntoStream(both)), "states")
			app := start(ctx, flow)
			return func(a act) string {
				if err := in.Send(ctx, a); err != nil {
					return err.Error()
				}
				p, err := out.Next(ctx)
				if err != nil {
					return err.Error()
				}
				s := state{p.First.First, p.First.Second, map[int]int{}}
				for k, v := range p.Second.All() {
					s.seen[k] = v
				}
				return text(s)
			}, app
		},
	})
}
