package durable

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type upgradePorts struct {
	votes  *dataflow.KeyedInputPort[string, int]
	extra  *dataflow.KeyedInputPort[string, int]
	sums   *dataflow.EntryOutputPort[string, int]
	grown  *dataflow.EntryOutputPort[string, grown]
	counts *dataflow.EntryOutputPort[string, int]
}

type votesStream = dataflow.KeyedStream[string, int, server, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

// adding returns the sum of the first three values of a key.
func adding(in votesStream) dataflow.KeyedSingleton[string, int, server, bounds.BoundedValue] {
	type sum struct{ N, Sum int }
	full := keyedstream.FoldEarlyStop(in, func() sum { return sum{} }, func(s *sum, v int) bool {
		s.N, s.Sum = s.N+1, s.Sum+v
		return s.N == 3
	})
	return keyedsingleton.Map(full, func(s sum) int { return s.Sum })
}

// upgraded is a program whose parts the cases of [TestUpgrades] change.
func upgraded(change func(f *dataflow.Flow, in votesStream, p *upgradePorts)) func(*dataflow.Flow) upgradePorts {
	return func(f *dataflow.Flow) (p upgradePorts) {
		votes, in := keyedstream.Input[string, int](dataflow.At[server](f), "votes")
		p.votes = votes
		change(f, in, &p)
		return p
	}
}

func plainSums(_ *dataflow.Flow, in votesStream, p *upgradePorts) {
	p.sums = keyedsingleton.Output(adding(in), "sums")
}

func namedSums(_ *dataflow.Flow, in votesStream, p *upgradePorts) {
	// Named is applied to the output of the fold, before the Map.
	type sum struct{ N, Sum int }
	full := dataflow.Named("sum", keyedstream.FoldEarlyStop(in, func() sum { return sum{} }, func(s *sum, v int) bool {
		s.N, s.Sum = s.N+1, s.Sum+v
		return s.N == 3
	}))
	p.sums = keyedsingleton.Output(keyedsingleton.Map(full, func(s sum) int { return s.Sum }), "sums")
}

func twoInputs(f *dataflow.Flow, in votesStream, p *upgradePorts) {
	plainSums(f, in, p)
	extra, more := keyedstream.Input[string, int](dataflow.At[server](f), "extra")
	p.extra = extra
	keyedstream.Output(more, "copies")
}

func twins(n int) func(*dataflow.Flow, votesStream, *upgradePorts) {
	return func(f *dataflow.Flow, in votesStream, p *upgradePorts) {
		plainSums(f, in, p)
		for i := 1; i < n; i++ {
			keyedsingleton.Output(adding(in), fmt.Sprint("sums ", i+1))
		}
	}
}

// grown is the type that a sum is converted to.
type grown struct {
	N, Sum int
	Last   string
}

// keptAs is namedSums with another type of state, which may have the same name.
func keptAs[T any](add func(s *T, v int) (n int), sum func(T) int) func(*dataflow.Flow, votesStream, *upgradePorts) {
	return func(_ *dataflow.Flow, in votesStream, p *upgradePorts) {
		full := dataflow.Named("sum", keyedstream.FoldEarlyStop(in, func() (none T) { return none }, func(s *T, v int) bool { return add(s, v) == 3 }))
		p.sums = keyedsingleton.Output(keyedsingleton.Map(full, sum), "sums")
	}
}

func moreFields() func(*dataflow.Flow, votesStream, *upgradePorts) {
	type sum struct {
		N, Sum int
		Last   string
	}
	return keptAs(func(s *sum, v int) int { s.N, s.Sum = s.N+1, s.Sum+v; return s.N }, func(s sum) int { return s.Sum })
}

func otherFields() func(*dataflow.Flow, votesStream, *upgradePorts) {
	type sum struct{ N, Total int }
	return keptAs(func(s *sum, v int) int { s.N, s.Total = s.N+1, s.Total+v; return s.N }, func(s sum) int { return s.Total })
}

func otherKinds() func(*dataflow.Flow, votesStream, *upgradePorts) {
	type sum struct {
		N   int
		Sum float64
	}
	return keptAs(func(s *sum, v int) int { s.N, s.Sum = s.N+1, s.Sum+float64(v); return s.N }, func(s sum) int { return int(s.Sum) })
}

// nestedSum, nestedMore and nestedLess have a sum in a struct that has no name.
func nestedSum() func(*dataflow.Flow, votesStream, *upgradePorts) {
	type sum struct {
		N  int
		In []struct {
			Sum  int
			Last int
		}
		Last string
	}
	return keptAs(func(s *sum, v int) int {
		s.In = append(slices.Clone(s.In), struct{ Sum, Last int }{v, v})
		return len(s.In)
	}, func(s sum) (n int) {
		for _, x := range s.In {
			n += x.Sum
		}
		return n
	})
}

func nestedMore() func(*dataflow.Flow, votesStream, *upgradePorts) {
	type in = struct {
		Sum  int
		Last int
		Note string
	}
	type sum struct {
		N    int
		In   []in
		Last string
	}
	return keptAs(func(s *sum, v int) int { s.In = append(slices.Clone(s.In), in{Sum: v}); return len(s.In) }, func(s sum) (n int) {
		for _, x := range s.In {
			n += x.Sum
		}
		return n
	})
}

func nestedLess() func(*dataflow.Flow, votesStream, *upgradePorts) {
	type in = struct{ Sum int }
	type sum struct {
		N    int
		In   []in
		Last string
	}
	return keptAs(func(s *sum, v int) int { s.In = append(slices.Clone(s.In), in{v}); return len(s.In) }, func(s sum) (n int) {
		for _, x := range s.In {
			n += x.Sum
		}
		return n
	})
}

// TestUpgrades starts a second program on the history of a first one, which was stopped or
// killed in the middle of its steps. Some second programs need a Change.
func TestUpgrades(t *testing.T) {
	const fold = "keyedstream.FoldEarlyStop[table(string,early durable.sum)]@{input votes}"
	tests := []struct {
		name          string
		first, second func(*dataflow.Flow, votesStream, *upgradePorts)
		refused       string // in the error without lines; empty if it is accepted
		lines         []Change
		kept          bool // the sum of a key includes the values sent to the first program
	}{
		{name: "nothing", first: plainSums, second: plainSums, kept: true},
		{name: "stateless operators in", first: plainSums, second: func(f *dataflow.Flow, in votesStream, p *upgradePorts) {
			in = keyedstream.Map(keyedstream.Filter(in, func(int) bool { return true }), func(v int) int { return v })
			plainSums(f, in, p)
		}, kept: true},
		{name: "another operator before", first: plainSums, second: func(f *dataflow.Flow, in votesStream, p *upgradePorts) {
			p.counts = keyedsingleton.Output(keyedstream.First(in), "first")
			plainSums(f, in, p)
		}, kept: true},
		{name: "another input before", first: plainSums, second: func(f *dataflow.Flow, in votesStream, p *upgradePorts) {
			_, more := keyedstream.Input[string, int](dataflow.At[server](f), "more")
			keyedsingleton.Output(adding(more), "more sums")
			plainSums(f, in, p)
		}, kept: true},
		{name: "a name", first: plainSums, second: namedSums, refused: fmt.Sprintf("durable.Was(%q, %q)", "sum", fold), lines: []Change{Was("sum", fold)}, kept: true},
		{name: "a name at a location", first: plainSums, second: namedSums, refused: "remembers something", lines: []Change{Was("server/sum", fold)}, kept: true},
		{name: "dropped", first: plainSums, second: namedSums, refused: fmt.Sprintf("durable.Drop(%q)", fold), lines: []Change{Drop(fold)}},
		{name: "an operator between", first: plainSums, second: func(f *dataflow.Flow, in votesStream, p *upgradePorts) {
			type with struct{ V int }
			unlike := keyedstream.Scan(in, func() with { return with{} }, func(_ *with, v int, emit func(int)) { emit(v) })
			plainSums(f, unlike, p)
		}, refused: "durable.Was(", lines: []Change{Was("keyedstream.FoldEarlyStop[table(string,early durable.sum)]@{keyedstream.Scan[table(string,durable.with)]@{input votes}}", fold)}, kept: true},
		{name: "an input gone", first: twoInputs, second: plainSums, refused: "output copies is gone", lines: []Change{Drop("output copies")}, kept: true},
		{name: "a field more", first: namedSums, second: moreFields(), kept: true},
		{name: "more fields of a struct without a name", first: nestedSum(), second: nestedMore(), kept: true},
		{name: "less fields of a struct without a name", first: nestedSum(), second: nestedLess(), refused: `durable.DropField("sum", "In.Last")`, lines: []Change{DropField("sum", "In.Last")}, kept: true},
		{name: "other fields", first: namedSums, second: otherFields(), refused: `durable.DropField("sum", "Sum")`, lines: []Change{DropField("sum", "Sum")}},
		{name: "another kind of field", first: namedSums, second: otherKinds(), refused: `durable.Convert("sum", `},
		{name: "a twin more", first: twins(1), second: twins(2), refused: "dataflow.Named"},
		{name: "a twin less", first: twins(3), second: twins(2), refused: "dataflow.Named"},
		{name: "twins as before", first: twins(2), second: twins(2), kept: true},
	}
	for _, test := range tests {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/killed=%v", test.name, killed), func(t *testing.T) {
				log := journal.NewMemory(journal.MemoryOptions{})
				app := start(t, log, upgraded(test.first), Options{})
				for _, v := range []int{3, 5} {
					if err := app.Ports.votes.SendNumbered(t.Context(), "a", uint64(v), v); err != nil {
						t.Fatal(err)
					}
				}
				for v := range 3 {
					if err := app.Ports.votes.Send(t.Context(), "b", v); err != nil {
						t.Fatal(err)
					}
				}
				await(t, app.Ports.sums, "b", 3)
				if killed {
					log.Crash()
					<-app.Done()
				} else {
					stop(t, app)
				}
				if test.refused != "" {
					_, err := Start(t.Context(), upgraded(test.second), quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
					if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), test.refused) {
						t.Fatalf("without a line: %v, want %q in it", err, test.refused)
					}
					if len(test.lines) == 0 {
						return
					}
				}
				if killed && !test.kept { // replayed steps would have other outputs
					return
				}
				lines := test.lines
				for life := range 3 { // the lines are needed once
					next := start(t, log.Reopen(), upgraded(test.second), Options{Upgrade: lines})
					await(t, next.Ports.sums, "b", 3)
					for _, v := range []int{5, 7} { // the first one is a repeat
						if err := next.Ports.votes.SendNumbered(t.Context(), "a", uint64(v), v); err != nil {
							t.Fatal(err)
						}
					}
					if test.kept {
						await(t, next.Ports.sums, "a", 15)
					}
					if life == 1 {
						stop(t, next)
					} else {
						next.core.abandoned.Store(true)
						stop(t, next)
					}
					lines = nil
					log = log.Reopen()
				}
			})
		}
	}
}

// TestConvert changes the type of an operator's state.
func TestConvert(t *testing.T) {
	type before struct{ N, Sum int }
	v1 := keptAs(func(b *before, v int) int { b.N, b.Sum = b.N+1, b.Sum+v; return b.N }, func(b before) int { return b.Sum })
	v2 := func(_ *dataflow.Flow, in votesStream, p *upgradePorts) {
		p.grown = keyedsingleton.Output(dataflow.Named("sum", keyedstream.FoldEarlyStop(in, func() grown { return grown{} }, func(g *grown, v int) bool {
			g.N, g.Sum = g.N+1, g.Sum+v
			return g.N == 3
		})), "grown")
	}
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, upgraded(v1), Options{})
	for _, k := range []string{"a", "a", "b", "b", "b"} {
		if err := app.Ports.votes.Send(t.Context(), k, 4); err != nil {
			t.Fatal(err)
		}
	}
	await(t, app.Ports.sums, "b", 12) // so all values were taken
	stop(t, app)
	_, err := Start(t.Context(), upgraded(v2), quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), `durable.Convert("sum", func(old) new)`) {
		t.Fatalf("without a line: %v", err)
	}
	converted := 0
	convert := Convert("sum", func(b before) grown {
		converted++
		return grown{N: b.N, Sum: b.Sum, Last: "converted"}
	})
	drops := []Change{Drop("output sums")}
	next := start(t, log.Reopen(), upgraded(v2), Options{Upgrade: append(drops, convert)})
	if err := next.Ports.votes.Send(t.Context(), "a", 4); err != nil {
		t.Fatal(err)
	}
	await(t, next.Ports.grown, "a", grown{3, 12, "converted"})
	if converted != 1 {
		t.Errorf("%d values were converted, want 1", converted)
	}
	stop(t, next)
	next = start(t, log.Reopen(), upgraded(v2), Options{}) // the Change is needed once
	await(t, next.Ports.grown, "a", grown{3, 12, "converted"})
	stop(t, next)
}

// TestRequireNames checks that a program with indistinguishable operators is refused with both
// places.
func TestRequireNames(t *testing.T) {
	_, err := Start(t.Context(), upgraded(twins(2)), quiet(Options{Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{})}, RequireNames: true}))
	if err == nil || strings.Count(err.Error(), "upgrade_test.go:") != 2 || !strings.Contains(err.Error(), "dataflow.Named") {
		t.Errorf("twins: %v", err)
	}
	var said strings.Builder
	app, err := Start(t.Context(), upgraded(twins(2)), Options{
		Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{})}, Logger: slog.New(slog.NewTextHandler(&said, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, app)
	if strings.Count(said.String(), "upgrade_test.go:") != 2 {
		t.Errorf("twins: the log says %q", said.String())
	}
}

// TestDropRecords removes an input for which records wait.
func TestDropRecords(t *testing.T) {
	memory := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, memory, upgraded(twoInputs), Options{})
	never, stopped := make(chan struct{}), make(chan struct{}, 100)
	memory.SetHook(func(a journal.Action) journal.Fault {
		if a.Op == journal.OpCommit && !a.Done {
			stopped <- struct{}{}
			return journal.Fault{Until: never}
		}
		return journal.Fault{}
	})
	for v := range 2 {
		if err := app.Ports.extra.Send(t.Context(), "a", v); err != nil {
			t.Fatal(err)
		}
	}
	<-stopped
	memory.Crash()
	close(never)
	<-app.Done()
	lines := []Change{Drop("output copies")}
	_, err := Start(t.Context(), upgraded(plainSums), quiet(Options{Log: journal.Opened{Log: memory.Reopen()}, Upgrade: lines}))
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "input extra is gone, and 2 records wait for it") || !strings.Contains(err.Error(), `durable.DropRecords("input extra")`) {
		t.Fatalf("while records wait: %v", err)
	}
	lines = append(lines, DropRecords("input extra"))
	for range 2 {
		next := start(t, memory.Reopen(), upgraded(plainSums), Options{Upgrade: lines})
		for range 3 {
			if err := next.Ports.votes.Send(t.Context(), fmt.Sprint("b", len(lines)), 1); err != nil {
				t.Fatal(err)
			}
		}
		await(t, next.Ports.sums, fmt.Sprint("b", len(lines)), 3)
		if letters, err := next.Quarantine(t.Context()); len(letters) > 0 || err != nil {
			t.Errorf("in quarantine: %v, %v", letters, err)
		}
		stop(t, next)
		lines = nil
	}
}
