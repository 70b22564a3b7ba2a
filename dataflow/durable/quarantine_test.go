package durable

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

type gatherPorts struct {
	in   *dataflow.KeyedInputPort[string, int]
	sums *dataflow.EntryOutputPort[string, string]
}

// gathering returns a flow that collects three numbers of each key and panics on the numbers that bad selects.
func gathering(bad func(int) bool) func(*dataflow.Flow) gatherPorts {
	return func(f *dataflow.Flow) gatherPorts {
		in, numbers := keyedstream.Input[string, int](dataflow.At[members](f), "in")
		gathered := keyedstream.FoldEarlyStop(numbers, func() []int { return nil }, func(all *[]int, x int) bool {
			if bad(x) {
				panic(fmt.Sprint("no ", x))
			}
			*all = append(*all, x)
			return len(*all) == 3
		})
		return gatherPorts{in, keyedsingleton.Output(keyedsingleton.Map(gathered, func(all []int) string { return fmt.Sprint(all) }), "sums")}
	}
}

// TestQuarantine sends records, on some of which the program panics. The later records of their keys wait in
// order, also across a kill, and all other keys continue. Retry succeeds once the program can handle the records.
func TestQuarantine(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for _, gathered := range []bool{false, true} { // many records in one message
			t.Run(fmt.Sprintf("killed=%v/gathered=%v", killed, gathered), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const keys, partitions = 100, 3
					var mended atomic.Bool
					build := gathering(func(x int) bool { return !mended.Load() && (x == 1007 || x == 2042 || x == 1042) })
					log := journal.NewMemory(journal.MemoryOptions{Partitions: partitions})
					o := Options{SnapshotBytes: 2000}
					app := start(t, log, build, o)
					var together [partitions][][]byte
					for x := range 3 {
						for k := range keys {
							key := fmt.Sprint("k", k)
							if !gathered {
								if err := app.Ports.in.Send(t.Context(), key, x*1000+k); err != nil {
									t.Fatal(err)
								}
								continue
							}
							r := codec.Record{Key: encoded(t, key), Value: encoded(t, x*1000+k)} // to the first operator
							p := app.core.layout.of(0, r.Key)
							together[p] = append(together[p], app.core.gateway.encode(nil, p, r))
						}
					}
					for p, records := range together {
						if _, err := app.core.append(t.Context(), p, records...); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(time.Second)
					letters, err := app.Quarantine(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if killed {
						log.Crash()
						<-app.Done()
						app = start(t, log.Reopen(), build, o)
						again, err := app.Quarantine(t.Context())
						if err != nil || !reflect.DeepEqual(again, letters) {
							t.Fatalf("after a kill there is %+v in quarantine, and was %+v (%v)", again, letters, err)
						}
					}
					behind := map[string]int{"no 1007": 1, "no 1042": 1}
					if len(letters) != len(behind) {
						t.Errorf("%d letters: %+v", len(letters), letters)
					}
					for _, l := range letters {
						if n, ok := behind[l.Reason[len("panic: "):]]; !ok || l.Behind != n || !strings.HasPrefix(l.Operator, "keyedstream.FoldEarlyStop (") || !strings.Contains(l.Input, "keyedstream.Input") {
							t.Errorf("%+v", l)
						}
					}
					for k := range keys {
						if k != 7 && k != 42 {
							await(t, app.Ports.sums, fmt.Sprint("k", k), fmt.Sprint([]int{k, 1000 + k, 2000 + k}))
						} else if v, ok := app.Ports.sums.Get(fmt.Sprint("k", k)); ok {
							t.Errorf("k%d has %v", k, v)
						}
					}
					for _, l := range letters { // the program is not fixed yet
						var q *QuarantinedError
						if err := app.Retry(t.Context(), l.Partition, l.ID); !errors.As(err, &q) || q.Letter != l.ID || q.Partition != l.Partition {
							t.Errorf("Retry of %d: %v", l.ID, err)
						}
					}
					if err := app.Ports.in.Send(t.Context(), "k7", 3007); err != nil { // waits behind the others
						t.Fatal(err)
					}
					stop(t, app)
					mended.Store(true)
					app = start(t, log.Reopen(), build, o)
					if letters, err = app.Quarantine(t.Context()); err != nil || len(letters) != 2 {
						t.Fatalf("%+v, %v", letters, err)
					}
					for _, l := range letters {
						if err := app.Retry(t.Context(), l.Partition, l.ID); err != nil {
							t.Errorf("Retry of %d: %v", l.ID, err)
						}
						if err := app.Retry(t.Context(), l.Partition, l.ID); !errors.Is(err, ErrNoLetter) {
							t.Errorf("a second Retry of %d: %v", l.ID, err)
						}
					}
					await(t, app.Ports.sums, "k7", "[7 1007 2007]")
					await(t, app.Ports.sums, "k42", "[42 1042 2042]")
					if letters, err = app.Quarantine(t.Context()); err != nil || len(letters) > 0 {
						t.Errorf("%+v, %v", letters, err)
					}
					stop(t, app)
				})
			})
		}
	}
}

func encoded(t *testing.T, v any) []byte {
	b, err := CBOR().Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTwoBadRecords has two records in one message that the program fails on, with different keys. The search must
// find both and must not stop the partition at the second.
func TestTwoBadRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), gathering(func(x int) bool { return x < 0 }), Options{Partitions: 1})
		var together [][]byte
		for _, x := range []int{1, -1, 2, -2, 3, 4} {
			key := "good"
			if x < 0 {
				key = fmt.Sprint("bad ", -x)
			}
			r := codec.Record{Key: encoded(t, key), Value: encoded(t, x)} // to the first operator
			together = append(together, app.core.gateway.encode(nil, 0, r))
		}
		if _, err := app.core.append(t.Context(), 0, together...); err != nil {
			t.Fatal(err)
		}
		await(t, app.Ports.sums, "good", "[1 2 3]")
		letters, err := app.Quarantine(t.Context())
		if err != nil || len(letters) != 2 || letters[0].Reason != "panic: no -1" || letters[1].Reason != "panic: no -2" {
			t.Errorf("%+v, %v", letters, err)
		}
		stop(t, app)
	})
}

// TestDrop drops the record that the program fails on, and not the records behind it.
func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), gathering(func(x int) bool { return x < 0 }), Options{Partitions: 1})
		for _, x := range []int{1, -1, 2, -2, 3} {
			if err := app.Ports.in.Send(t.Context(), "a", x); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		var q *QuarantinedError
		if err := app.Drop(t.Context(), 0, 1); !errors.As(err, &q) || q.Letter != 1 {
			t.Errorf("the record behind the one that is dropped can be handled, or not: %v", err)
		}
		letters, err := app.Quarantine(t.Context())
		if err != nil || len(letters) != 1 || letters[0].Behind != 2 {
			t.Fatalf("%+v, %v", letters, err)
		}
		// 2 came before -2 in the same attempt and waits with it.
		if err := app.Drop(t.Context(), 0, 2); !errors.Is(err, ErrNoLetter) {
			t.Errorf("Drop of what is not there: %v", err)
		}
		if err := app.Drop(t.Context(), 7, 1); !errors.Is(err, ErrNoLetter) {
			t.Errorf("Drop in no partition: %v", err)
		}
		if m := app.Metrics(); m.Quarantined == 0 {
			t.Error("the metrics know of nothing")
		}
		stop(t, app)
	})
}

// TestUnreadableRecord puts records into the log that the program cannot decode, such as records of a client with
// another version.
func TestUnreadableRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, keptProcess, Options{})
		of := app.core.originOf(0)
		for _, r := range [][]byte{{}, {1}, {0, 200, 1, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 1, 0xff, 0xff}, {99, 0, 0, 0, 0, 0}} {
			if _, err := log.Append(t.Context(), 0, of.record(nil, 0, r)); err != nil {
				t.Fatal(err)
			}
		}
		if err := app.Ports.in.Put(t.Context(), "a", "v"); err != nil {
			t.Fatal(err)
		}
		await(t, app.Ports.out, "a", "got v")
		letters, err := app.Quarantine(t.Context())
		if err != nil || len(letters) != 5 {
			t.Errorf("%+v, %v", letters, err)
		}
		for _, l := range letters {
			var q *QuarantinedError
			if err := app.Retry(t.Context(), 0, l.ID); !errors.As(err, &q) || q.Letter != l.ID {
				t.Errorf("Retry of what still cannot be read: %v", err)
			}
		}
		if letters, err = app.Quarantine(t.Context()); err != nil || len(letters) != 5 {
			t.Errorf("%+v, %v", letters, err)
		}
		log.Crash()
		<-app.Done()
		app = start(t, log.Reopen(), keptProcess, Options{})
		if again, err := app.Quarantine(t.Context()); err != nil || !reflect.DeepEqual(again, letters) {
			t.Errorf("after a kill %+v, %v", again, err)
		}
		stop(t, app)
	})
}

// TestPutQuarantined checks that Put reports that the program cannot handle the entry.
func TestPutQuarantined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type ports struct {
			in  *dataflow.EntryInputPort[string, int]
			out *dataflow.EntryOutputPort[string, int]
		}
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), func(f *dataflow.Flow) ports {
			in, entries := keyedsingleton.Input[string, int](dataflow.At[server](f), "in")
			return ports{in, keyedsingleton.Output(keyedsingleton.Map(entries, func(x int) int { return 10 / x }), "out")}
		}, Options{})
		var q *QuarantinedError
		if err := app.Ports.in.Put(t.Context(), "b", 0); !errors.As(err, &q) || q.Letter != 1 {
			t.Errorf("Put: %v", err)
		}
		if err := app.Ports.in.Put(t.Context(), "b", 5); !errors.As(err, &q) || q.Letter != 1 {
			t.Errorf("Put behind it: %v", err)
		}
		if err := app.Ports.in.Put(t.Context(), "a", 5); err != nil {
			t.Error(err)
		}
		await(t, app.Ports.out, "a", 2)
		stop(t, app)
	})
}

// TestNoRecordAtFault has a slice call a function that panics on the output of a timer. No record is at fault, so
// the flow ends, even if the same step took records.
func TestNoRecordAtFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), func(f *dataflow.Flow) keptPorts {
			at := dataflow.At[server](f)
			in, entries := keyedsingleton.Input[string, string](at, "in")
			batch := slice.BatchEntries(slice.At(at), keyedsingleton.After(entries, time.Minute, "tested"), "tested")
			late := keyedsingleton.Map(batch, func(string) string { panic("too late") })
			return keptPorts{in, keyedsingleton.Output(slice.EmitEntries(late), "out")}
		}, Options{})
		if err := app.Ports.in.Put(t.Context(), "a", "v"); err != nil {
			t.Fatal(err)
		}
		<-app.Done()
		var failed *dataflow.StepError
		if err := app.Err(); !errors.As(err, &failed) || failed.Op != "keyedsingleton.Map" {
			t.Errorf("the flow ended with %v", err)
		}
	})
}

// TestQuarantinedCall has asynchronous calls fail. The others are answered. The failed calls are answered when
// they are retried and the program can handle them.
func TestQuarantinedCall(t *testing.T) {
	type ports struct {
		in  *dataflow.EntryInputPort[string, int]
		out *dataflow.EntryOutputPort[string, string]
	}
	for way, fail := range map[string]func() string{
		"panic":     func() string { panic("no line") },
		"Goexit":    func() string { runtime.Goexit(); return "" },
		"too large": func() string { return strings.Repeat("x", 3000) },
	} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mended atomic.Bool
				build := func(f *dataflow.Flow) ports {
					in, entries := keyedsingleton.Input[string, int](dataflow.At[server](f), "in")
					answers := keyedsingleton.MapAsync(entries, func(_ context.Context, x int) string {
						if x%5 == 0 && !mended.Load() {
							return fail()
						}
						return fmt.Sprint("said ", x)
					}, keyedsingleton.AsyncOptions{Concurrency: 2})
					return ports{in, keyedsingleton.Output(answers, "out")}
				}
				log := journal.NewMemory(journal.MemoryOptions{MaxRecord: 2000})
				app := start(t, log, build, Options{})
				for x := range 20 {
					if err := app.Ports.in.Put(t.Context(), fmt.Sprint("k", x), x); err != nil {
						t.Fatal(err)
					}
				}
				for x := range 20 {
					if x%5 != 0 {
						await(t, app.Ports.out, fmt.Sprint("k", x), fmt.Sprint("said ", x))
					}
				}
				time.Sleep(time.Second)
				log.Crash()
				<-app.Done()
				app = start(t, log.Reopen(), build, Options{})
				time.Sleep(time.Second)
				letters, err := app.Quarantine(t.Context())
				if err != nil || len(letters) != 4 {
					t.Fatalf("%d letters: %+v, %v", len(letters), letters, err)
				}
				for _, l := range letters {
					if !strings.Contains(l.Operator, "keyedsingleton.MapAsync") || l.Reason == "" || l.Key == nil || l.Behind != 0 {
						t.Errorf("%+v", l)
					}
				}
				if err := app.Drop(t.Context(), 0, letters[0].ID); err != nil {
					t.Error(err)
				}
				mended.Store(true)
				for _, l := range letters[1:] {
					if err := app.Retry(t.Context(), 0, l.ID); err != nil {
						t.Error(err)
					}
				}
				var dropped string
				if err := CBOR().Decode(letters[0].Key, &dropped); err != nil {
					t.Fatal(err)
				}
				for _, x := range []int{0, 5, 10, 15} {
					if fmt.Sprint("k", x) == dropped {
						continue
					}
					await(t, app.Ports.out, fmt.Sprint("k", x), fmt.Sprint("said ", x))
				}
				stop(t, app)
				app = start(t, log.Reopen(), build, Options{})
				time.Sleep(time.Second)
				if letters, err := app.Quarantine(t.Context()); err != nil || len(letters) > 0 {
					t.Errorf("%+v, %v", letters, err)
				}
				if v, ok := app.Ports.out.Get(dropped); ok {
					t.Errorf("the call that was dropped is answered: %s", v)
				}
				stop(t, app)
			})
		})
	}
}
