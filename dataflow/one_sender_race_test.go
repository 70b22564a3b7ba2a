//go:build race

package dataflow_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// senderPrograms are programs in which several goroutines send. The race detector must report
// exactly those whose sends are unordered although the input requires an order.
var senderPrograms = map[string]struct {
	race bool
	run  func(flow *dataflow.Flow, at server) (senders []func(), taken func() int)
}{
	"two goroutines": {true, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := dataflow.Input[int](at, "in")
		send := func() { tenTimes(func(i int) { in.Send(context.Background(), i) }) }
		return []func(){send, send}, taking(s)
	}},
	"a batch beside single sends": {true, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := dataflow.Input[int](at, "in")
		return []func(){
			func() { tenTimes(func(i int) { in.Send(context.Background(), i) }) },
			func() { tenTimes(func(i int) { in.SendBatch(context.Background(), []int{i, i}) }) },
		}, taking(s)
	}},
	"numbered sends beside others": {true, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := dataflow.Input[int](at, "in")
		return []func(){
			func() { tenTimes(func(i int) { in.Send(context.Background(), i) }) },
			func() { tenTimes(func(i int) { in.SendNumbered(context.Background(), uint64(i), i) }) },
		}, taking(s)
	}},
	"two goroutines, one after the other by chance": {true, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := dataflow.Input[int](at, "in")
		second := make(chan struct{})
		return []func(){
			func() { in.Send(context.Background(), 1); close(second) },
			func() {
				<-second // the first two sends are ordered; the third is concurrent
				in.Send(context.Background(), 2)
			},
			func() { in.Send(context.Background(), 3) },
		}, taking(s)
	}},
	"one key": {true, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := keyedstream.Input[string, int](at, "in")
		send := func() { tenTimes(func(i int) { in.Send(context.Background(), "k", i) }) }
		return []func(){send, send}, taking(keyedstream.Values(s))
	}},
	"one of many keys": {true, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := keyedstream.Input[string, int](at, "in")
		var first sync.WaitGroup
		first.Add(2)
		send := func(who string) func() {
			return func() {
				tenTimes(func(i int) { in.Send(context.Background(), who+strconv.Itoa(i), i) })
				first.Done()
				first.Wait() // the sends that follow are unordered
				tenTimes(func(i int) { in.Send(context.Background(), strconv.Itoa(i), i) })
			}
		}
		return []func(){send("a"), send("b")}, taking(keyedstream.Values(s))
	}},
	"batches of one key": {true, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := keyedstream.Input[string, int](at, "in")
		send := func(who string) func() {
			return func() {
				tenTimes(func(i int) {
					in.SendBatch(context.Background(), []string{who, "k", who + strconv.Itoa(i)}, []int{i, i, i})
				})
			}
		}
		return []func(){send("a"), send("b")}, taking(keyedstream.Values(s))
	}},
	"a batch of a key beside single sends": {true, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := keyedstream.Input[string, int](at, "in")
		return []func(){
			func() { tenTimes(func(i int) { in.Send(context.Background(), "k", i) }) },
			func() {
				tenTimes(func(i int) { in.SendBatch(context.Background(), []string{"a", "k"}, []int{i, i}) })
			},
		}, taking(keyedstream.Values(s))
	}},
	"numbered batches of one key": {true, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := keyedstream.Input[string, int](at, "in")
		send := func() {
			tenTimes(func(i int) {
				in.SendBatchNumbered(context.Background(), uint64(2*i), []string{"a", "k"}, []int{i, i})
			})
		}
		return []func(){send, send}, taking(keyedstream.Values(s))
	}},
	"sequences of one key": {true, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := keyedstream.Input[string, int](at, "in")
		send := func() { in.SendSeq(context.Background(), maps.All(map[string]int{"a": 1, "k": 2})) }
		return []func(){send, send}, taking(keyedstream.Values(s))
	}},
	"a key that is an interface": {true, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := keyedstream.Input[any, int](at, "in")
		send := func() { tenTimes(func(i int) { in.Send(context.Background(), [2]any{1.5, "k"}, i) }) }
		return []func(){send, send}, taking(keyedstream.Values(s))
	}},
	"one handle": {true, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := dataflow.SenderInput[string, int](at, "in")
		send := func() { tenTimes(func(i int) { in.Sender("k").Send(context.Background(), i) }) }
		return []func(){send, send}, taking(keyedstream.Values(s))
	}},

	"one goroutine for each key": {false, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := keyedstream.Input[int, int](at, "in")
		send := func(k int) func() { return func() { tenTimes(func(i int) { in.Send(context.Background(), k, i) }) } }
		return []func(){send(1), send(2), send(3)}, taking(keyedstream.Values(s))
	}},
	"one goroutine for each handle": {false, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := dataflow.SenderInput[int, int](at, "in")
		send := func(id int) func() {
			return func() {
				tenTimes(func(i int) { in.Sender(id).Send(context.Background(), i) })
				in.Sender(id).Close()
			}
		}
		return []func(){send(1), send(2), send(3)}, taking(keyedstream.Values(s))
	}},
	"batches of other keys": {false, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := keyedstream.Input[int, int](at, "in")
		send := func(k int) func() {
			return func() {
				tenTimes(func(i int) { in.SendBatch(context.Background(), []int{k, 10 + k, k}, []int{i, i, i}) })
			}
		}
		return []func(){send(1), send(2), send(3)}, taking(keyedstream.Values(s))
	}},
	"what cannot be a key": {false, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := keyedstream.Input[any, int](at, "in")
		ids, _ := dataflow.SenderInput[any, int](at, "ids")
		send := func() {
			tenTimes(func(i int) {
				in.Send(context.Background(), []int{}, i)
				in.SendBatch(context.Background(), []any{[]int{}, func() {}}, []int{i, i})
				ids.Sender([]int{}).Send(context.Background(), i)
			})
		}
		return []func(){send, send}, taking(keyedstream.Values(s))
	}},
	"shared": {false, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := dataflow.SharedInput[int](at, "in")
		send := func() {
			tenTimes(func(i int) { in.Send(context.Background(), i); in.SendBatch(context.Background(), []int{i, i}) })
		}
		return []func(){send, send, send}, taking(s)
	}},
	"shared by key": {false, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := keyedstream.SharedInput[string, int](at, "in")
		put, entries := keyedsingleton.Input[int, int](at, "entries")
		keyedsingleton.Output(entries, "all")
		send := func() {
			tenTimes(func(i int) {
				in.Send(context.Background(), "k", i)
				in.SendBatch(context.Background(), []string{"k", "k"}, []int{i, i})
				put.PutBatch(context.Background(), []int{i, i + 1}, []int{i, i})
			})
		}
		return []func(){send, send, send}, taking(keyedstream.Values(s))
	}},
	"a lock": {false, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := dataflow.Input[int](at, "in")
		var mu sync.Mutex
		send := func() {
			tenTimes(func(i int) {
				mu.Lock()
				defer mu.Unlock()
				in.Send(context.Background(), i)
			})
		}
		return []func(){send, send, send, send}, taking(s)
	}},
	"turns": {false, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := dataflow.Input[int](at, "in")
		a, b := make(chan bool, 1), make(chan bool, 1)
		a <- true
		turns := func(mine, other chan bool) func() {
			return func() {
				tenTimes(func(i int) {
					<-mine
					in.Send(context.Background(), i)
					other <- true
				})
			}
		}
		return []func(){turns(a, b), turns(b, a)}, taking(s)
	}},
	"somebody else closes": {false, func(_ *dataflow.Flow, at server) ([]func(), func() int) {
		in, s := dataflow.Input[int](at, "in")
		keyed, ks := keyedstream.Input[int, int](at, "keyed")
		senders, ss := dataflow.SenderInput[int, int](at, "senders")
		sender := senders.Sender(1)
		keyedstream.Output(ks, "keys")
		keyedstream.Output(ss, "senders")
		return []func(){
			func() {
				tenTimes(func(i int) { in.Send(context.Background(), i); keyed.Send(context.Background(), 1, i) })
			},
			func() { tenTimes(func(i int) { sender.Send(context.Background(), i) }) },
			in.Close, keyed.Close, sender.Close, senders.Close,
		}, taking(s)
	}},
}

func tenTimes(f func(i int)) {
	for i := range 10 {
		f(i)
	}
}

// taking returns a function that reports the number of elements received.
func taking[O dataflow.Order](s dataflow.Stream[int, server, unbounded, O, dataflow.ExactlyOnce]) func() int {
	n := 0
	dataflow.Inspect(s, func(int) { n++ })
	return func() int { return n }
}

// TestOneSenderRaces runs each program in a process of its own, because a race report fails the process.
func TestOneSenderRaces(t *testing.T) {
	if name := os.Getenv(senderProgram); name != "" {
		runSenders(t, name)
		return
	}
	for name, program := range senderPrograms {
		t.Run(name, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestOneSenderRaces$", "-test.count", "3")
			c.Env = append(os.Environ(), senderProgram+"="+name, "GORACE=halt_on_error=1")
			out, err := c.CombinedOutput()
			reported := strings.Contains(string(out), "WARNING: DATA RACE")
			if reported != program.race || (err != nil) != program.race {
				t.Errorf("reported %t, want %t: %v\n%s", reported, program.race, err, out)
			}
			if reported && !strings.Contains(string(out), "one_sender_race_test.go") {
				t.Errorf("the report does not name the senders:\n%s", out)
			}
		})
	}
}

// senderProgram names the program that a process runs.
const senderProgram = "MILLRACE_SENDER_PROGRAM"

func runSenders(t *testing.T, name string) {
	flow := dataflow.New()
	senders, taken := senderPrograms[name].run(flow, dataflow.At[server](flow))
	app := start(t, flow)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for _, send := range senders {
		all.Go(func() {
			<-begin
			send()
		})
	}
	close(begin)
	all.Wait()
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Log(taken(), "were taken")
}
