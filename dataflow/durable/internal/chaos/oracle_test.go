package chaos

import (
	"fmt"
	"slices"
	"testing"
)

// Truth is the expected result of the records, computed by a loop that is simple enough
// to review.
type truth struct {
	votes    map[uint64]int // how often each vote occurs in the log
	released map[string]release
	claimed  map[string]claim
	records  int
	steps    int
}

type release struct {
	tally    tally
	position uint64 // of the record that decided
}

type claim struct {
	claim    uint64
	position uint64
}

func recompute(all []history) *truth {
	t := &truth{votes: make(map[uint64]int), released: make(map[string]release), claimed: make(map[string]claim)}
	for _, h := range all {
		open := make(map[string]tally)
		for _, r := range h.records {
			t.records++
			if r.op == h.ops.claims {
				if _, taken := t.claimed[r.key]; !taken {
					t.claimed[r.key] = claim{r.claim, r.position}
				}
				continue
			}
			t.votes[r.vote.ID]++
			a := open[r.key]
			if _, done := t.released[r.key]; done || slices.Contains(a.Voters, r.vote.Voter) {
				continue
			}
			a.Voters = append(a.Voters, r.vote.Voter)
			a.Sum += r.vote.Value
			open[r.key] = a
			if len(a.Voters) == quorum {
				t.released[r.key] = release{a, r.position}
			}
		}
		t.steps += len(h.steps)
	}
	return t
}

// checkSteps checks that each step emitted exactly the outputs that its records decide:
// all of them, once, with the right values, in the step that took the deciding record.
func checkSteps(t testing.TB, all []history, truth *truth) (outputs int) {
	t.Helper()
	var missing, doubled, wrong, order report
	given := make(map[string]bool)
	for _, h := range all {
		due := make(map[uint64][]string) // by position of the deciding record
		mine := make(map[string]bool)
		for _, r := range h.records {
			if rel, ok := truth.released[r.key]; ok && rel.position == r.position && !mine["released "+r.key] {
				mine["released "+r.key] = true
				due[r.position] = append(due[r.position], "released "+r.key)
			}
			if c, ok := truth.claimed[r.key]; ok && c.position == r.position && !mine["claimed "+r.key] {
				mine["claimed "+r.key] = true
				due[r.position] = append(due[r.position], "claimed "+r.key)
			}
		}
		positions := make([]uint64, 0, len(due))
		for p := range due {
			positions = append(positions, p)
		}
		slices.Sort(positions)
		taken := uint64(0)
		for _, s := range h.steps {
			if s.taken < taken {
				order.add("partition %d: step %d took up to %d, after one that took up to %d", h.partition, s.fence, s.taken, taken)
			}
			for _, o := range s.outputs {
				outputs++
				name, right, position := judge(h, o, truth)
				switch {
				case given[name]:
					doubled.add("partition %d: step %d gives %s again", h.partition, s.fence, name)
				case !right || position <= taken || position > s.taken:
					wrong.add("partition %d: step %d, which took %d to %d, gives %s %+v; the log says %+v and %+v",
						h.partition, s.fence, taken, s.taken, name, o, truth.released[o.key], truth.claimed[o.key])
				}
				given[name] = true
			}
			for len(positions) > 0 && positions[0] <= s.taken {
				for _, name := range due[positions[0]] {
					if !given[name] {
						missing.add("partition %d: step %d took %d and did not give %s", h.partition, s.fence, positions[0], name)
					}
				}
				positions = positions[1:]
			}
			taken = s.taken
		}
	}
	missing.end(t, "outputs missing from steps")
	doubled.end(t, "outputs doubled in steps")
	wrong.end(t, "outputs of steps wrong")
	order.end(t, "steps out of order")
	return outputs
}

func judge(h history, o output, truth *truth) (name string, right bool, position uint64) {
	if o.op == h.ops.claimed {
		c, ok := truth.claimed[o.key]
		return "claimed " + o.key, ok && c.claim == o.claim, c.position
	}
	r, ok := truth.released[o.key]
	return "released " + o.key, ok && r.tally.equal(o.tally), r.position
}

// verify compares everything with the oracle. A run that did nothing fails.
func verify(t testing.TB, all []history, requests []*request) *truth {
	t.Helper()
	truth := recompute(all)
	outputs := checkSteps(t, all, truth)
	answered := checkCallers(t, requests, truth)
	if answered == 0 || outputs == 0 || truth.records == 0 || truth.steps == 0 {
		t.Errorf("nothing was checked: %d answers, %d outputs, %d records, %d steps", answered, outputs, truth.records, truth.steps)
	}
	t.Logf("read back: %d records, %d steps, %d outputs, %d releases, %d claims; %d of %d callers answered",
		truth.records, truth.steps, outputs, len(truth.released), len(truth.claimed), answered, len(requests))
	return truth
}

// TestOracle checks that verify detects each kind of damage.
func TestOracle(t *testing.T) {
	votes := func(key string, position uint64) (rs []record) {
		for i := range quorum {
			rs = append(rs, record{position: position + uint64(i), op: 0, key: key, vote: vote{ID: position + uint64(i), Voter: i, Value: 1}})
		}
		return rs
	}
	fresh := func() ([]history, []*request) {
		h := history{ops: operators{0, 1, 2, 3}}
		h.records = append(votes("a", 1), votes("b", 4)...)
		done := tally{[]int{0, 1, 2}, 3}
		h.steps = []committed{
			{fence: 1}, {fence: 2, taken: 3, outputs: []output{{op: 2, key: "a", tally: done}}},
			{fence: 3, taken: 6, outputs: []output{{op: 2, key: "b", tally: done}}},
		}
		r := &request{key: "a", votes: []vote{{1, 0, 1}}, attempts: []int{1}, acked: []bool{true}, resolved: true, result: done}
		return []history{h}, []*request{r}
	}
	for name, damage := range map[string]func(h *history, r *request){
		"nothing":        nil,
		"missing output": func(h *history, _ *request) { h.steps[1].outputs = nil },
		"late output":    func(h *history, _ *request) { h.steps[1].taken = 2 },
		"wrong output":   func(h *history, _ *request) { h.steps[1].outputs[0].tally.Sum = 4 },
		"doubled output": func(h *history, _ *request) { h.steps[2].outputs = append(h.steps[2].outputs, h.steps[1].outputs[0]) },
		"lost record":    func(h *history, _ *request) { h.records = h.records[1:] },
		"doubled record": func(h *history, _ *request) { h.records = append(h.records, h.records[0]) },
		"wrong answer":   func(_ *history, r *request) { r.result.Sum = 9 },
		"no answer":      func(_ *history, r *request) { r.resolved = false },
		"no history":     func(h *history, _ *request) { *h = history{} },
		"step back":      func(h *history, _ *request) { h.steps = append(h.steps, committed{fence: 4, taken: 5}) },
	} {
		t.Run(name, func(t *testing.T) {
			all, requests := fresh()
			found := &finder{TB: t}
			if damage != nil {
				damage(&all[0], requests[0])
			}
			verify(found, all, requests)
			if got := len(found.errors) > 0; got != (damage != nil) {
				t.Errorf("found: %q", found.errors)
			}
		})
	}
}

// A finder collects the errors of a check.
type finder struct {
	testing.TB
	errors []string
}

func (f *finder) Helper() {}
func (f *finder) Errorf(format string, v ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, v...))
}
