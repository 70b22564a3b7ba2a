package durable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type answerPorts struct {
	in  *dataflow.KeyedInputPort[int, string]
	out *dataflow.EntryOutputPort[int, string]
}

// TestQuarantinedAnswer has a function panic on answers of asynchronous calls. Such an answer is quarantined, and its call is not
// made again: neither at once nor after a restart. When the function can handle the answer, a retry gives it that answer. A
// dropped answer leaves a call that is never made again.
func TestQuarantinedAnswer(t *testing.T) {
	var mended atomic.Bool
	read := func(answer string) {
		if strings.Contains(answer, "odd") && !mended.Load() {
			panic("cannot read " + answer)
		}
	}
	var calls atomic.Int32
	call := func(name string) string { return fmt.Sprint(name, " in call ", calls.Add(1)) }
	callNamed := func(_ context.Context, name string) string { return call(name) }
	flows := map[string]func(f *dataflow.Flow) answerPorts{
		"on the key": func(f *dataflow.Flow) answerPorts {
			in, names := keyedstream.Input[int, string](dataflow.At[members](f), "in")
			called := keyedsingleton.IntoKeyedStream(keyedsingleton.MapAsync(keyedstream.First(names), callNamed, keyedsingleton.AsyncOptions{}))
			return answerPorts{in, keyedsingleton.Output(keyedstream.First(keyedstream.InspectWithKey(called, func(_ int, s string) { read(s) })), "out")}
		},
		"on another key": func(f *dataflow.Flow) answerPorts {
			in, names := keyedstream.Input[int, string](dataflow.At[members](f), "in")
			called := keyedsingleton.MapAsync(keyedstream.First(names), callNamed, keyedsingleton.AsyncOptions{})
			out := keyedsingleton.Output(called, "out")
			byName := keyedstream.Rekey(keyedsingleton.IntoKeyedStream(called), func(_ int, s string) string { return s })
			dataflow.Output(keyedstream.Entries(keyedstream.InspectWithKey(byName, func(s, _ string) { read(s) })), "seen")
			return answerPorts{in, out}
		},
		"of lives": func(f *dataflow.Flow) answerPorts {
			in, names := keyedstream.Input[int, string](dataflow.At[members](f), "in")
			first := keyedstream.FirstWithin(names, keyedstream.Retain{Keys: 100}, "tested")
			called := keyedsingleton.MapAsync(first, callNamed, keyedsingleton.AsyncOptions{})
			return answerPorts{in, keyedsingleton.Output(keyedsingleton.Map(called, func(s string) string { read(s); return s }), "out")}
		},
		"of a machine": func(f *dataflow.Flow) answerPorts {
			in, names := keyedstream.Input[int, string](dataflow.At[members](f), "in")
			type turn = keyedstream.CallingTurn[int, string, string, string]
			_, answers := keyedstream.CallingMachine(names, func() int { return 0 },
				func(_ *int, name string, do *turn) { do.Call(name) }, func(*int, keyedstream.Timer, *turn) {},
				keyedstream.Calling(func(_ context.Context, c keyedstream.Call[int, string]) string { return call(c.Request) },
					func(_ *int, _, s string, do *turn) { read(s); do.Decide(s) }, keyedstream.CallOptions{}), "tested")
			return answerPorts{in, keyedsingleton.Output(answers, "out")}
		},
	}
	for name, build := range flows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls.Store(0)
				mended.Store(false)
				log := journal.NewMemory(journal.MemoryOptions{Partitions: 3})
				app := start(t, log, build, Options{Partitions: 3})
				letters := func() (byKey map[int]Letter) {
					t.Helper()
					synctest.Wait()
					all, err := app.Quarantine(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					byKey = make(map[int]Letter)
					for _, l := range all {
						var k int
						if err := CBOR().Decode(l.Key, &k); err != nil { // of lives, which have a number as well
							var life struct{ Key int }
							if err := CBOR().Decode(l.Key, &life); err != nil {
								t.Fatalf("%+v: %v", l, err)
							}
							k = life.Key
						}
						if !strings.Contains(l.Reason, "cannot read") {
							t.Errorf("%+v", l)
						}
						byKey[k] = l
					}
					return byKey
				}
				for k := range 8 {
					text := "even"
					if k%2 == 1 {
						text = "odd"
					}
					if err := app.Ports.in.Send(t.Context(), k, text); err != nil {
						t.Fatal(err)
					}
				}
				n := len(letters())
				made := calls.Load() // a call that ran while its partition was restored was made again
				if n != 4 || made < 8 {
					t.Fatalf("%d letters after %d calls, want 4 after at least 8", n, made)
				}
				log.Crash()
				<-app.Done()
				app = start(t, log.Reopen(), build, Options{Partitions: 3})
				all := letters()
				if len(all) != 4 || calls.Load() != made {
					t.Fatalf("%d letters after %d calls and a restart, want 4 after %d", len(all), calls.Load(), made)
				}
				var failed *QuarantinedError
				if err := app.Retry(t.Context(), all[1].Partition, all[1].ID); !errors.As(err, &failed) {
					t.Errorf("a retry that fails again: %v", err)
				}
				if err := app.Drop(t.Context(), all[3].Partition, all[3].ID); err != nil {
					t.Error(err)
				}
				if n = len(letters()); n != 3 || calls.Load() != made {
					t.Errorf("%d letters after %d calls, a retry and a drop, want 3 after %d", n, calls.Load(), made)
				}
				mended.Store(true)
				for _, k := range []int{1, 5, 7} {
					if err := app.Retry(t.Context(), all[k].Partition, all[k].ID); err != nil {
						t.Error(err)
					}
				}
				if n = len(letters()); n != 0 || calls.Load() != made {
					t.Errorf("%d letters after %d calls and four retries, want none after %d", n, calls.Load(), made)
				}
				stop(t, app)
				app = start(t, log.Reopen(), build, Options{Partitions: 3})
				if n = len(letters()); n != 0 || calls.Load() != made {
					t.Errorf("%d letters after %d calls and a second restart, want none after %d", n, calls.Load(), made)
				}
				for k := range 8 {
					got, ok := app.Ports.out.Get(k)
					if ok != (k != 3) || ok && strings.Contains(got, "odd") != (k%2 == 1) {
						t.Errorf("key %d has %q, %v", k, got, ok)
					}
				}
				stop(t, app)
			})
		})
	}
}

// TestDroppedAnswerOfOlderHistory drops a quarantined answer as earlier versions did: the call stayed without an answer, and
// was made again by the next restore. A replay of such a history must come to the same state.
func TestDroppedAnswerOfOlderHistory(t *testing.T) {
	var calls atomic.Int32
	build := func(f *dataflow.Flow) answerPorts {
		in, names := keyedstream.Input[int, string](dataflow.At[members](f), "in")
		called := keyedsingleton.MapAsync(keyedstream.First(names), func(_ context.Context, name string) string {
			return fmt.Sprint(name, " in call ", calls.Add(1))
		}, keyedsingleton.AsyncOptions{})
		return answerPorts{in, keyedsingleton.Output(keyedsingleton.Map(called, func(s string) string {
			if strings.HasSuffix(s, " 1") {
				panic("cannot read " + s)
			}
			return s
		}), "out")}
	}
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, build, Options{Digest: 1})
		if err := app.Ports.in.Send(t.Context(), 7, "seven"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		letters, err := app.Quarantine(t.Context())
		if err != nil || len(letters) != 1 {
			t.Fatalf("%d letters, %v", len(letters), err)
		}
		older := codec.Record{Kind: codec.KindDrop, Number: letters[0].ID}
		if err := app.made().sendInstruction(t.Context(), "test", 0, older); err != nil {
			t.Fatal(err)
		}
		log.Crash()
		<-app.Done()
		app = start(t, log.Reopen(), build, Options{Digest: 1})
		await(t, app.Ports.out, 7, "seven in call 2")
		stop(t, app)
	})
}
