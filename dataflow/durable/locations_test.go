package durable

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

type ledger struct{ dataflow.Process }

type ledgers struct{ dataflow.Cluster }

func crashLocations(f *dataflow.Flow) crashPorts {
	return crashLocationsAt(dataflow.At[server](f), dataflow.At[ledger](f))
}

func crashDivided(f *dataflow.Flow) crashPorts {
	return crashLocationsAt(dataflow.At[members](f), dataflow.At[ledgers](f))
}

// crashLocationsAt is the crash workload over two locations. Votes are sent to the location that
// counts them, which shows a lost or doubled vote. Claims are sent there too: one output stays
// there, and another is sent back.
func crashLocationsAt[A, B dataflow.Location](a A, b B) (p crashPorts) {
	votes, in := keyedstream.SharedInput[string, int](a, "votes")
	moved := keyedstream.AssumeOrder(keyedstream.Send(in, b), "which three votes release a request is told apart by their sum")
	p.votes = votes
	p.released = keyedsingleton.Output(keyedstream.FoldEarlyStop(moved, func() tally { return tally{} }, func(t *tally, v int) bool {
		t.Votes++
		t.Sum += v
		return t.Votes == 3
	}), "released")
	p.all = keyedstream.Output(moved, "all votes")
	puts, claimed := keyedsingleton.Input[string, int](a, "claims")
	there := keyedsingleton.Send(claimed, b)
	doubled := keyedsingleton.MapAsync(there, func(_ context.Context, x int) int { return 2 * x }, keyedsingleton.AsyncOptions{})
	p.claims = puts
	p.called = keyedsingleton.Output(keyedsingleton.Send(doubled, a), "called")
	p.overdue = keyedsingleton.Output(keyedsingleton.After(there, dueAfter, "tests wait for it"), "overdue")
	return p
}

// TestLocationCrashPoints ends the process at each moment of a run over two locations.
func TestLocationCrashPoints(t *testing.T) {
	hook, count := points(nil)
	report(t, "without a fault", trialOf(t, crashLocations, 2, 1, false, tiny, hook))
	moments := count.Load()
	if moments < 100 {
		t.Fatalf("there are only %d moments to crash at", moments)
	}
	t.Logf("%d moments", moments)
	for name, fault := range map[string]func(journal.Action) journal.Fault{"crash": crash, "fail": fail} {
		for at := int64(1); at <= moments && !t.Failed(); at++ {
			hook, _ := points(fault, at)
			report(t, fmt.Sprintf("%s at moment %d of %d", name, at, moments), trialOf(t, crashLocations, 2, 1, false, tiny, hook))
		}
	}
}

// TestLocationCrashTwice ends processes at several moments, also with partitioned locations and
// with two processes that own everything at the same time.
func TestLocationCrashTwice(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	divided := tiny
	divided.Partitions = 2
	for n := 0; n < *crashes && !t.Failed(); n++ {
		a := rng.Int64N(300) + 1
		b := a + 1 + rng.Int64N(40)
		fault := crash
		if n%3 == 0 {
			fault = fail
		}
		hook, _ := points(fault, a, b, b+rng.Int64N(20))
		build, partitions, options := crashLocations, 2, tiny
		if n%5 < 2 {
			build, partitions, options = crashDivided, 4, divided
		}
		wrong := trialOf(t, build, partitions, 1+n%2, n%4 > 1, options, hook)
		report(t, fmt.Sprintf("trial %d, moments %d and %d", n, a, b), wrong)
	}
}

type circlePorts struct {
	in    *dataflow.InputPort[int]
	total *dataflow.SingletonOutputPort[int]
}

// circle sends each number back and forth and adds one each time, until its last digit is
// rounds.
func circle(f *dataflow.Flow) circlePorts {
	a, b := dataflow.At[server](f), dataflow.At[ledger](f)
	in, xs := dataflow.Input[int](a, "in")
	loop, again := dataflow.Cycle[int, dataflow.NoOrder](a, "again")
	there := dataflow.Send(dataflow.Merge(xs, again), b)
	back := dataflow.Send(dataflow.Map(there, func(x int) int { return x + 1 }), a)
	done, more := dataflow.Partition(back, func(x int) bool { return x%10 == rounds })
	loop.Complete(more)
	return circlePorts{in, singleton.Output(dataflow.Sum(done), "total")}
}

const rounds = 5

// TestCircleOfLocations has two locations send each other more than their queues hold. Neither
// waits for the other forever, even if the process ends in between.
func TestCircleOfLocations(t *testing.T) {
	memory := journal.NewMemory(journal.MemoryOptions{Partitions: 2})
	options := Options{SnapshotBytes: 200, Flow: dataflow.Options{Queue: 2}}
	app := start(t, memory, circle, options)
	const n, times = 20, 20
	batch := make([]int, n)
	for i := range times {
		for k := range batch {
			batch[k] = 10 * (n*i + k)
		}
		if _, err := app.Ports.in.SendBatch(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if i%8 == 3 {
			memory.Crash()
			<-app.Done()
			memory = memory.Reopen()
			app = start(t, memory, circle, options)
		}
	}
	all := n * times
	reaches(t, app.Ports.total, 10*all*(all-1)/2+rounds*all)
	stop(t, app)
}

type linePorts struct {
	in    *dataflow.InputPort[int]
	lines *dataflow.OutputPort[string]
	total *dataflow.SingletonOutputPort[int]
}

// lines numbers and sums at one location the values that arrive at another.
func lines(f *dataflow.Flow) (p linePorts) {
	a, b := dataflow.At[server](f), dataflow.At[ledger](f)
	in, xs := dataflow.Input[int](a, "in")
	moved := dataflow.Send(xs, b)
	p.in = in
	p.lines = dataflow.Output(dataflow.Map(dataflow.Enumerate(moved), func(x dataflow.Pair[int, int]) string { return fmt.Sprint(x.First, ": ", x.Second) }), "lines")
	p.total = singleton.Output(dataflow.Sum(moved), "total")
	return p
}

// reaches waits until the total is want or greater, and fails if it is not want.
func reaches(t *testing.T, port *dataflow.SingletonOutputPort[int], want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got := 0
	for got = range port.Watch(ctx) {
		if got >= want {
			break
		}
	}
	if got != want {
		t.Errorf("the total is %d, want %d", got, want)
	}
}

// readLines reads n lines, the first of which has number from.
func readLines(t *testing.T, port *dataflow.OutputPort[string], from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		got, err := port.Next(t.Context())
		if want := fmt.Sprint(i, ": ", i); err != nil || got != want {
			t.Fatalf("line %q, %v, want %q", got, err, want)
		}
	}
}

// TestOrderAcrossLocations sends numbers through two locations that restart in between, with a
// log in memory and with an embedded server.
func TestOrderAcrossLocations(t *testing.T) {
	for _, embedded := range []bool{false, true} {
		t.Run(fmt.Sprint("embedded=", embedded), func(t *testing.T) {
			memory := journal.NewMemory(journal.MemoryOptions{Partitions: 2})
			options := Options{Log: natslog.Embedded(t.TempDir()), Flow: dataflow.Options{Queue: 4}}
			const each = 30
			sum := 0
			for round := range 3 {
				var log journal.Log
				if !embedded {
					memory = memory.Reopen()
					log = memory
				}
				app := start(t, log, lines, options)
				for i := round * each; i < (round+1)*each; i++ {
					if err := app.Ports.in.Send(t.Context(), i); err != nil {
						t.Fatal(err)
					}
					sum += i
				}
				reaches(t, app.Ports.total, sum)
				if round == 2 {
					readLines(t, app.Ports.lines, 0, 3*each)
				}
				if !embedded && round == 1 {
					memory.Crash()
					<-app.Done()
					continue
				}
				stop(t, app)
			}
		})
	}
}

// otherLines is lines with a different link between the locations.
func otherLines(f *dataflow.Flow) (p linePorts) {
	a, b := dataflow.At[server](f), dataflow.At[ledger](f)
	in, xs := dataflow.Input[int](a, "in")
	moved := dataflow.Named("moved", dataflow.Send(xs, b))
	p.in = in
	p.lines = dataflow.Output(dataflow.Map(dataflow.Enumerate(moved), func(x dataflow.Pair[int, int]) string { return fmt.Sprint(x.First, ": ", x.Second) }), "lines")
	p.total = singleton.Output(dataflow.Sum(moved), "total")
	return p
}

// TestForgetLink replaces a link and drops the state of the old one. The receiver must not take
// the values of the new link for repeats of the old ones.
func TestForgetLink(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{Partitions: 2})
	app := start(t, log, lines, Options{})
	for range 10 {
		if err := app.Ports.in.Send(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	reaches(t, app.Ports.total, 10)
	stop(t, app)
	const link = "dataflow.Send[int]@{server/dataflow.Send[unsent(ledger,int)]@{input in}}"
	options := Options{Upgrade: []Change{
		Drop("dataflow.Send[unsent(ledger,int)]@{input in}"),
		Was("ledger/moved", link), // the operators below the link keep their state without a Change
	}}
	for life := range 2 {
		log = log.Reopen()
		more := start(t, log, otherLines, options)
		for range 5 {
			if err := more.Ports.in.Send(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
		}
		reaches(t, more.Ports.total, 20+10*life)
		stop(t, more)
		options = Options{}
	}
}

// TestNoMembers checks that Start refuses dataflow.Members, because a durable flow partitions
// keys itself.
func TestNoMembers(t *testing.T) {
	defer func() {
		if v := fmt.Sprint(recover()); !strings.Contains(v, "a durable flow has no members") {
			t.Errorf("members: %s", v)
		}
	}()
	_, _ = Start(t.Context(), func(f *dataflow.Flow) struct{} {
		dataflow.Members[server](f, 2)
		return struct{}{}
	}, Options{Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{})}})
}

// TestSentWhenCommitted checks that a step sends nothing to another location before it is
// durable.
func TestSentWhenCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := journal.NewMemory(journal.MemoryOptions{Partitions: 2})
		app := start(t, memory, lines, Options{})
		never, appended := make(chan struct{}), 0
		memory.SetHook(func(a journal.Action) journal.Fault {
			switch {
			case a.Op == journal.OpCommit && a.Partition == 0 && !a.Done:
				return journal.Fault{Until: never}
			case a.Op == journal.OpAppend && a.Partition == 1:
				appended++
			}
			return journal.Fault{}
		})
		if err := app.Ports.in.Send(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the step is waiting for its commit
		if appended != 0 {
			t.Errorf("%d records were sent of a step that is not durable", appended)
		}
		memory.Crash()
		<-app.Done()
		memory = memory.Reopen()
		memory.SetHook(nil)
		app = start(t, memory, lines, Options{})
		reaches(t, app.Ports.total, 1)
		stop(t, app)
	})
}
