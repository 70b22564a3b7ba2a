package window_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

const asRead = "splits are told in the order in which the test tells them"

// A splitMove is one action of a source: it sends ticks of a split, or a notice.
type splitMove struct {
	split  string
	ticks  []tick
	notice window.SplitNotice
}

func reads(split string, reader uint64) splitMove {
	return splitMove{split: split, notice: window.SplitNotice{Is: window.SplitRead, Reader: reader, ID: "1"}}
}

func says(split string, is window.SplitState, reader uint64) splitMove {
	return splitMove{split: split, notice: window.SplitNotice{Is: is, Reader: reader}}
}

func found(split string) splitMove { return says(split, window.SplitFound, 0) }
func idle(split string) splitMove  { return says(split, window.SplitIdle, 0) }

func gives(split string, times ...int) splitMove {
	m := splitMove{split: split}
	for _, at := range times {
		m.ticks = append(m.ticks, tick{split, at, at})
	}
	return m
}

// A splitting is a flow that runs StampSplits.
type splitting struct {
	in     *dataflow.KeyedInputPort[string, tick]
	told   *dataflow.SharedKeyedInputPort[string, window.SplitNotice]
	events *dataflow.OutputPort[string]
	late   *dataflow.OutputPort[string]
	closed *dataflow.OutputPort[string]
	mark   *dataflow.SingletonOutputPort[window.Time]
}

func buildSplitting(flow *dataflow.Flow, disorder window.Disorder) (x splitting) {
	here := dataflow.At[server](flow)
	in, ticks := keyedstream.Input[string, tick](here, "ticks")
	told, notices := keyedstream.SharedInput[string, window.SplitNotice](here, "notices")
	events, late := window.StampSplits(ticks, notices, at, disorder, asRead)
	closed, _ := window.Count(keyedstream.Rekey(events, func(string, window.Event[tick]) string { return "all" }), window.Every(10*time.Second))
	line := func(e window.Event[tick]) string { return fmt.Sprintf("%s%d", e.Value.Key, e.Value.N) }
	return splitting{
		in, told,
		dataflow.Output(dataflow.Map(keyedstream.Values(events), line), "events"),
		dataflow.Output(dataflow.Map(keyedstream.Values(late), line), "late"),
		dataflow.Output(counted(closed), "closed"), singleton.Output(window.Mark(keyedstream.Values(events)), "mark"),
	}
}

// splitsRun is the result of moves: the mark after each move, and all lines of the outputs, sorted.
type splitsRun struct {
	marks []string
	lines string
}

func markText(m window.Time) string {
	switch m {
	case window.Past:
		return "-"
	case window.Future:
		return "+"
	}
	return inSeconds(m)
}

func sortedAll(outs ...[]string) string {
	for _, out := range outs {
		slices.Sort(out)
	}
	return fmt.Sprint(outs)
}

// produceSplits runs moves in a real app, with up to cut ticks in a batch.
func produceSplits(t *testing.T, moves []splitMove, disorder window.Disorder, cut int, record *dataflow.Recording) (r splitsRun) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Record: record})
		x := buildSplitting(flow, disorder)
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range moves {
			if m.ticks == nil {
				if err := x.told.Send(t.Context(), m.split, m.notice); err != nil {
					t.Fatal(err)
				}
			}
			for batch := range slices.Chunk(m.ticks, cut) {
				if _, err := x.in.SendBatch(t.Context(), slices.Repeat([]string{m.split}, len(batch)), batch); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			mark, _ := x.mark.Latest()
			r.marks = append(r.marks, markText(mark))
		}
		x.in.Close()
		x.told.Close()
		var outs [3][]string
		for i, out := range []*dataflow.OutputPort[string]{x.events, x.late, x.closed} {
			for line := range out.All(t.Context()) {
				outs[i] = append(outs[i], line)
			}
		}
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		r.lines = sortedAll(outs[:]...)
	})
	return r
}

// modelSplits computes the expected result of moves, element by element and only from the moves of each split.
func modelSplits(moves []splitMove, disorder window.Disorder) (r splitsRun) {
	type split struct {
		times   []int // in order
		mark    int   // never, before the split has one
		waits   bool
		reader  uint64
		id      string
		hasLeft bool // it has ended
	}
	const never = -1 << 30
	splits, mark := map[string]*split{}, never
	greatest := never
	settle := func() {
		least, waits := 1<<30, false
		for _, s := range splits {
			if s.waits {
				least, waits = min(least, s.mark), true
			}
		}
		if !waits {
			least = greatest
		}
		mark = max(mark, least)
	}
	var events, late, closed []string
	count := map[int]int{}
	join := func(name string) *split {
		s := splits[name]
		if s == nil {
			s = &split{mark: never}
			splits[name] = s
		}
		s.waits, s.hasLeft = true, false
		s.mark = max(s.mark, mark)
		greatest = max(greatest, s.mark)
		return s
	}
	slack := int(disorder.Slack / time.Second)
	for _, m := range moves {
		s := splits[m.split]
		for _, x := range m.ticks {
			if s == nil || !s.waits {
				s = join(m.split)
			}
			if x.At < s.mark {
				late = append(late, fmt.Sprintf("%s%d", x.Key, x.N))
				settle()
				continue
			}
			events = append(events, fmt.Sprintf("%s%d", x.Key, x.N))
			count[x.At/10]++
			s.times = append(s.times, x.At)
			slices.Sort(s.times)
			if n := len(s.times) - max(disorder.Confirm, 1); n >= 0 {
				s.mark = max(s.mark, s.times[n]-slack)
				greatest = max(greatest, s.mark)
			}
			settle()
		}
		if n := m.notice; m.ticks == nil {
			believed := s != nil && (n.Reader == 0 || s.reader == 0 || n.Reader == s.reader)
			switch n.Is {
			case window.SplitFound:
				if s == nil {
					join(m.split)
				}
			case window.SplitRead:
				if s != nil && (s.hasLeft || s.id != n.ID) {
					s.mark, s.times = never, nil
				}
				s = join(m.split)
				s.reader, s.id = n.Reader, n.ID
			case window.SplitIdle:
				if believed {
					s.waits = false
				}
			case window.SplitEnded:
				if believed {
					*s = split{mark: never, hasLeft: true}
				}
			}
			settle()
		}
		text := fmt.Sprint(mark)
		if mark == never {
			text = "-"
		}
		r.marks = append(r.marks, text)
	}
	for at, n := range count {
		closed = append(closed, fmt.Sprintf("all[%d,%d)=%d", 10*at, 10*at+10, n))
	}
	r.lines = sortedAll(events, late, closed)
	return r
}

// TestSplits checks the cases that the documentation of StampSplits describes.
func TestSplits(t *testing.T) {
	for _, x := range []struct {
		name  string
		moves []splitMove
		slack int
		marks string // after each move
		late  string
	}{
		{"a split that is read faster makes nothing late", []splitMove{found("a"), found("b"), gives("a", 1, 50), gives("b", 2, 3), gives("a", 60), gives("b", 70)}, 0, "- - - 3 3 60", ""},
		{"each split has its own disorder", []splitMove{gives("a", 10, 5, 8), gives("b", 4)}, 2, "8 8", "a5 b4"},
		{"one that was not found joins where the mark is", []splitMove{gives("a", 10), gives("b", 9, 10, 11), gives("a", 20)}, 0, "10 10 11", "b9"},
		{"one that is idle is not waited for (case 22)", []splitMove{reads("a", 1), reads("b", 1), gives("a", 10), gives("b", 5), says("b", window.SplitIdle, 1), gives("a", 20), gives("b", 15, 25), gives("a", 30)}, 0, "- - - 5 10 20 20 25", "b15"},
		{"one that is idle before its first element", []splitMove{found("a"), found("b"), gives("a", 10), idle("b"), gives("b", 9, 12)}, 0, "- - - 10 10", "b9"},
		{"what returns holds the mark, also by what is late", []splitMove{gives("a", 10), gives("b", 10), idle("b"), gives("a", 20), gives("b", 11), gives("a", 30)}, 0, "10 10 10 20 20 20", "b11"},
		{"one that is read again is waited for before it speaks", []splitMove{gives("a", 10), reads("b", 1), says("b", window.SplitIdle, 1), gives("a", 20), reads("b", 2), gives("a", 30), gives("b", 20, 40)}, 0, "10 10 10 20 20 20 30", ""},
		{"the last one to fall silent does not matter: a", []splitMove{found("a"), found("b"), gives("a", 10), gives("b", 5), idle("b"), idle("a")}, 0, "- - - 5 10 10", ""},
		{"the last one to fall silent does not matter: b", []splitMove{found("a"), found("b"), gives("a", 10), gives("b", 5), idle("a"), idle("b")}, 0, "- - - 5 5 10", ""},
		{"one that ends is not waited for", []splitMove{reads("a", 1), reads("b", 2), gives("a", 10), says("b", window.SplitEnded, 2), found("b"), gives("a", 12)}, 0, "- - - 10 10 12", ""},
		{"another reader is not believed", []splitMove{reads("a", 1), reads("a", 2), gives("b", 7), says("a", window.SplitIdle, 1), says("a", window.SplitEnded, 1), says("a", window.SplitIdle, 2)}, 0, "- - - - - 7", ""},
		{"one that was made anew", []splitMove{gives("a", 5), reads("b", 1), gives("b", 50), {split: "b", notice: window.SplitNotice{Is: window.SplitRead, Reader: 2, ID: "2"}}, gives("b", 6), gives("a", 10)}, 0, "5 5 5 5 5 6", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := produceSplits(t, x.moves, slack(x.slack), 1, nil)
			if got := strings.Join(r.marks, " "); got != x.marks {
				t.Errorf("the marks are %s, want %s", got, x.marks)
			}
			if late := strings.Split(strings.Trim(r.lines, "[]"), "] [")[1]; late != x.late {
				t.Errorf("late are %s, want %s", late, x.late)
			}
			if want := modelSplits(x.moves, slack(x.slack)); fmt.Sprint(want) != fmt.Sprint(r) {
				t.Errorf("the model says %s, and the flow %s", want, r)
			}
		})
	}
}

// randomSplits returns moves of four splits that appear, fall silent, become active again, change their
// reader, and end.
func randomSplits(rng *rand.Rand) (moves []splitMove) {
	clock, n := map[string]int{}, 0
	for range 60 {
		split := string(rune('a' + rng.IntN(4)))
		reader := uint64(rng.IntN(3))
		switch rng.IntN(10) {
		case 0:
			moves = append(moves, found(split))
		case 1:
			moves = append(moves, splitMove{split: split, notice: window.SplitNotice{Is: window.SplitRead, Reader: reader, ID: fmt.Sprint(rng.IntN(5) / 4)}})
		case 2:
			moves = append(moves, says(split, window.SplitIdle, reader))
		case 3:
			if rng.IntN(3) == 0 {
				moves = append(moves, says(split, window.SplitEnded, reader))
			}
		default:
			m := splitMove{split: split}
			for range 1 + rng.IntN(4) {
				n++
				clock[split] += rng.IntN(6)
				m.ticks = append(m.ticks, tick{split, max(0, clock[split]-rng.IntN(6)), n})
			}
			moves = append(moves, m)
		}
	}
	return moves
}

// TestSplitsRandom compares random moves with the model, for any cut of batches and from the recording.
func TestSplitsRandom(t *testing.T) {
	late := 0
	seeds(t, 100, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 5))
		moves := randomSplits(rng)
		disorder := window.Disorder{Slack: time.Duration(rng.IntN(4)) * time.Second, Confirm: rng.IntN(4)}
		want := modelSplits(moves, disorder)
		late += len(strings.Fields(strings.Split(want.lines, "] [")[1]))
		for _, cut := range []int{1, 2, 100} {
			var record dataflow.Recording
			if got := produceSplits(t, moves, disorder, cut, &record); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("seed %d, %d at a time, %v:\n got %s\nwant %s\nof %v", seed, cut, disorder, got, want, moves)
			}
			sim.Rerun(t, &record, func(s *sim.Sim) {
				x := buildSplitting(s.Flow(), disorder)
				s.Start()
				if got := sortedAll(sim.Collect(s, x.events), sim.Collect(s, x.late), sim.Collect(s, x.closed)); got != want.lines {
					s.Errorf("seed %d, recorded %d at a time:\n got %s\nwant %s", seed, cut, got, want.lines)
				}
			})
		}
	})
	if late == 0 {
		t.Error("nothing was ever late")
	}
}

// TestSplitsSchedules compares the results of some moves in all schedules with those of the model in
// all orders.
func TestSplitsSchedules(t *testing.T) {
	moves := map[string][]splitMove{"a": {found("a"), gives("a", 10), gives("a", 20)}, "b": {gives("b", 15), idle("b"), gives("b", 12)}}
	want := map[string]int{}
	var orders func(done []splitMove, a, b []splitMove)
	orders = func(done []splitMove, a, b []splitMove) {
		if len(a) == 0 && len(b) == 0 {
			want[modelSplits(done, slack(0)).lines]++
		}
		if len(a) > 0 {
			orders(append(done[:len(done):len(done)], a[0]), a[1:], b)
		}
		if len(b) > 0 {
			orders(append(done[:len(done):len(done)], b[0]), a, b[1:])
		}
	}
	// The notices and the elements of a split come through two inputs.
	for _, a := range [][]int{{0, 1, 2}, {1, 0, 2}, {1, 2, 0}} {
		for _, b := range [][]int{{1, 0, 2}, {0, 1, 2}, {0, 2, 1}} {
			pick := func(ms []splitMove, at []int) (picked []splitMove) {
				for _, i := range at {
					picked = append(picked, ms[i])
				}
				return picked
			}
			orders(nil, pick(moves["a"], a), pick(moves["b"], b))
		}
	}
	got := map[string]int{}
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		x := buildSplitting(s.Flow(), slack(0))
		s.Start()
		for _, split := range []string{"a", "b"} {
			for _, m := range moves[split] {
				if m.ticks == nil {
					s.Check(x.told.Send(s.Context(), m.split, m.notice))
					continue
				}
				s.Check(x.in.Send(s.Context(), m.split, m.ticks[0]))
			}
		}
		x.in.Close()
		x.told.Close()
		got[sortedAll(sim.Collect(s, x.events), sim.Collect(s, x.late), sim.Collect(s, x.closed))]++
	})
	for lines := range got {
		if want[lines] == 0 {
			t.Errorf("in %d of %d schedules there is %s, which the model does not know", got[lines], n, lines)
		}
	}
	for lines := range want {
		if got[lines] == 0 {
			t.Errorf("in no schedule there is %s", lines)
		}
	}
	t.Logf("%d results in %d schedules", len(got), n)
}
