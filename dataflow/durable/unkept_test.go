package durable

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type numbers = dataflow.KeyedStream[string, int, server, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

type unkeptPorts struct {
	in   *dataflow.KeyedInputPort[string, int]
	sums *dataflow.EntryOutputPort[string, string]
}

// unkept returns a flow that collects three numbers of each key, and of which give makes something else as well.
func unkept(give func(*dataflow.Flow, numbers)) func(*dataflow.Flow) unkeptPorts {
	return func(f *dataflow.Flow) unkeptPorts {
		in, ns := keyedstream.Input[string, int](dataflow.At[server](f), "in")
		give(f, ns)
		gathered := keyedstream.FoldEarlyStop(ns, func() []int { return nil }, func(all *[]int, x int) bool {
			*all = append(*all, x)
			return len(*all) == 3
		})
		return unkeptPorts{in, keyedsingleton.Output(keyedsingleton.Map(gathered, func(all []int) string { return fmt.Sprint(all) }), "sums")}
	}
}

// worst is the number of which the programs of TestUnkept make what cannot be kept, until they are mended.
const worst = 666

// TestUnkept has a program make elements that cannot be encoded, or that are too large to be sent to another
// location. The records that they are made of are quarantined, and everything else goes on, also after a kill.
func TestUnkept(t *testing.T) {
	var mended atomic.Bool
	bad := func(n int) bool { return n == worst && !mended.Load() }
	long := func(n int) string {
		if bad(n) {
			return strings.Repeat("x", 70<<10)
		}
		return fmt.Sprint(n)
	}
	late := func(n int) time.Time {
		if bad(n) {
			return time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		return time.Unix(int64(n), 0)
	}
	for _, test := range []struct {
		name      string
		locations int
		give      func(*dataflow.Flow, numbers)
		reason    string
		behind    int
	}{
		{"large entry", 2, func(f *dataflow.Flow, ns numbers) {
			keyedstream.Output(keyedstream.Send(keyedstream.Map(ns, long), dataflow.At[ledger](f)), "given")
		}, "an element for ledger has 7", 1},
		{"large element", 2, func(f *dataflow.Flow, ns numbers) {
			dataflow.Output(dataflow.Send(keyedstream.Values(keyedstream.Map(ns, long)), dataflow.At[ledger](f)), "given")
		}, "an element for ledger has 7", 0},
		{"sent entry", 2, func(f *dataflow.Flow, ns numbers) {
			keyedstream.Output(keyedstream.Send(keyedstream.Map(ns, late), dataflow.At[ledger](f)), "given")
		}, "year", 1},
		{"sent element", 2, func(f *dataflow.Flow, ns numbers) {
			dataflow.Output(dataflow.Send(keyedstream.Values(keyedstream.Map(ns, late)), dataflow.At[ledger](f)), "given")
		}, "year", 0},
		{"element", 1, func(_ *dataflow.Flow, ns numbers) {
			dataflow.Output(keyedstream.Values(keyedstream.Map(ns, late)), "given")
		}, "year", 0},
		{"entry", 1, func(_ *dataflow.Flow, ns numbers) {
			keyedsingleton.Output(keyedstream.First(keyedstream.Filter(keyedstream.Map(ns, late), func(at time.Time) bool { return at.Unix() > 100 })), "given")
		}, "year", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mended.Store(false)
				log := journal.NewMemory(journal.MemoryOptions{Partitions: test.locations, MaxRecord: 64 << 10})
				build := unkept(test.give)
				app := start(t, log, build, Options{})
				send := func(k string, ns ...int) {
					t.Helper()
					for _, n := range ns {
						if err := app.Ports.in.Send(t.Context(), k, n); err != nil {
							t.Fatal(err)
						}
					}
				}
				send("a", 1, worst, 2)
				send("b", 1, 2, 3)
				await(t, app.Ports.sums, "b", "[1 2 3]")
				log.Crash()
				<-app.Done()
				app = start(t, log.Reopen(), build, Options{})
				letters, err := app.Quarantine(t.Context())
				if err != nil || len(letters) != 1 {
					t.Fatalf("%+v, %v", letters, err)
				}
				l := letters[0]
				if !strings.Contains(l.Reason, test.reason) || l.Behind != test.behind || !strings.Contains(l.Operator, "unkept_test.go:") {
					t.Errorf("%+v", l)
				}
				if err := app.Retry(t.Context(), l.Partition, l.ID); !errors.As(err, new(*QuarantinedError)) {
					t.Errorf("Retry before the program is mended: %v", err)
				}
				mended.Store(true)
				stop(t, app)
				app = start(t, log.Reopen(), build, Options{})
				if err := app.Retry(t.Context(), l.Partition, l.ID); err != nil {
					t.Error(err)
				}
				want := "[1 666 2]"
				if test.behind == 0 {
					want = "[1 2 666]"
				}
				await(t, app.Ports.sums, "a", want)
				stop(t, app)
			})
		})
	}
}

// TestMostSent sends elements around the most that a record can have. Each arrives or is quarantined, and none stops
// its partition.
func TestMostSent(t *testing.T) {
	for name, open := range map[string]func(string) journal.Opener{
		"memory": func(string) journal.Opener {
			return journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{Partitions: 2})}
		},
		"disklog": disklog.Dir,
		"natslog": natslog.Embedded,
	} {
		t.Run(name, func(t *testing.T) {
			app := start(t, nil, func(f *dataflow.Flow) lengthPorts {
				in, ns := keyedstream.Input[string, int](dataflow.At[server](f), "in")
				long := keyedstream.Map(ns, func(n int) string { return strings.Repeat("x", n) })
				lengths := keyedstream.Map(keyedstream.Send(long, dataflow.At[ledger](f)), func(s string) int { return len(s) })
				return lengthPorts{in, keyedsingleton.Output(keyedstream.First(lengths), "lengths")}
			}, Options{Log: open(t.TempDir())})
			most := mostSent(app.core.log)
			if most < 64<<10 {
				t.Fatalf("at most %d bytes can be sent", most)
			}
			large := 0
			for by := -2; by <= 2; by++ {
				k, n := fmt.Sprint(by+2), most-len(encoded(t, "k"))-5+by // CBOR has 5 bytes before a long string
				if err := app.Ports.in.Send(t.Context(), k, n); err != nil {
					t.Fatal(err)
				}
				if by <= 0 {
					await(t, app.Ports.lengths, k, n)
					continue
				}
				large++
				for {
					letters, err := app.Quarantine(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if len(letters) == large {
						break
					}
					runtime.Gosched()
				}
			}
			stop(t, app)
		})
	}
}

type lengthPorts struct {
	in      *dataflow.KeyedInputPort[string, int]
	lengths *dataflow.EntryOutputPort[string, int]
}

// A marshaled is a number with methods that panic on some numbers.
type marshaled int

// The numbers on which methods of marshaled panic.
const (
	panicsWhenEncoded = 666
	panicsWhenDecoded = 777
)

func (m marshaled) MarshalBinary() ([]byte, error) {
	if m == panicsWhenEncoded {
		panic(fmt.Sprint("no ", int(m)))
	}
	return fmt.Append(nil, int(m)), nil
}

func (m *marshaled) UnmarshalBinary(data []byte) error {
	if string(data) == fmt.Sprint(panicsWhenDecoded) {
		_ = data[len(data)]
	}
	_, err := fmt.Sscan(string(data), (*int)(m))
	return err
}

// TestPanickingMethods has methods that encode and decode values panic. The records are quarantined, as if a function
// had panicked on them.
func TestPanickingMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type ports struct {
			in   *dataflow.KeyedInputPort[string, marshaled]
			sums *dataflow.EntryOutputPort[string, string]
			out  *dataflow.OutputPort[marshaled]
		}
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 1})
		app := start(t, log, func(f *dataflow.Flow) ports {
			in, ns := keyedstream.Input[string, marshaled](dataflow.At[server](f), "in")
			more := keyedstream.Map(ns, func(m marshaled) marshaled { return m + 1 })
			texts := keyedstream.First(keyedstream.Map(ns, func(m marshaled) string { return fmt.Sprint(int(m)) }))
			return ports{in, keyedsingleton.Output(texts, "sums"), dataflow.Output(keyedstream.Values(more), "more")}
		}, Options{})
		for i, m := range []marshaled{1, panicsWhenEncoded - 1, panicsWhenDecoded, 2} {
			if err := app.Ports.in.Send(t.Context(), fmt.Sprint(i), m); err != nil {
				t.Fatal(err)
			}
		}
		await(t, app.Ports.sums, "0", "1")
		await(t, app.Ports.sums, "3", "2")
		letters, err := app.Quarantine(t.Context())
		if err != nil || len(letters) != 2 {
			t.Fatalf("%+v, %v", letters, err)
		}
		for i, want := range []string{"encoding durable.marshaled: panic at unkept_test.go:", "decoding *durable.marshaled: panic at unkept_test.go:"} {
			if l := letters[i]; !strings.Contains(l.Reason, want) {
				t.Errorf("%+v, want a reason with %q", l, want)
			}
		}
		if err := app.Ports.in.Send(t.Context(), "4", panicsWhenEncoded); err == nil || !strings.Contains(err.Error(), "no 666") {
			t.Errorf("a value that cannot be encoded was sent: %v", err)
		}
		stop(t, app)
	})
}
