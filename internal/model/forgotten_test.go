package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/long"
)

// A part is a piece of an operator's memory: a table, a variable, or pending timers.
type part struct {
	operator string
	number   int
	saved    bool // otherwise cleared at the end of each run of a slice
}

func (p part) String() string {
	if p.saved {
		return fmt.Sprintf("part %d of %s, which is saved", p.number, p.operator)
	}
	return fmt.Sprintf("part %d of %s, which is cleared", p.number, p.operator)
}

// is reports whether an operator's part is p. In operator, the name of an output may follow that of
// the operator.
func (p part) is(operator string, number int, saved bool) bool {
	name, _, _ := strings.Cut(operator, " ")
	return p == part{name, number, saved}
}

// unnoticed lists the parts whose missing registration no test notices, with the reason.
var unnoticed = map[part]string{
	{"singleton.Of", 0, true}:                   "it is a constant, which each life of a flow begins with",
	{"dataflow.Max", 0, true}:                   "it is the value of a Reduce within, of which only the changes are read; see part 1",
	{"dataflow.Min", 0, true}:                   "it is as in dataflow.Max",
	{"keyedsingleton.MaxKey", 2, true}:          "it is the value of the largest key, which is written whenever it is read",
	{"keyedsingleton.MapAsyncWithKey", 0, true}: "it is part 0 of keyedsingleton.MapAsync, by which it is made: only calls of that one are answered",
	{"keyedsingleton.TryAsync", 0, true}:        "it is as in keyedsingleton.MapAsyncWithKey",
	{"window.Stamp", 1, true}:                   "it is the mark before the end of time, which does not come to flows that are saved",
	{"window.Idle", 3, true}:                    "it is as in window.Stamp",
	{"window.StampNow", 0, true}:                "without it the mark goes once more to a time that it is not before",
	{"window.StampNow", 2, true}:                "it is as in window.Stamp",
	{"window.StampNowKeyed", 0, true}:           "it is as in window.StampNow",
	{"window.StampNowKeyed", 2, true}:           "it is as in window.Stamp",
	{"keyedsingleton.MaxKey", 0, false}:         "it is read only once part 2 says that a run has it",
	{"keyedsingleton.MaxKey", 1, false}:         "it is as part 0",
}

// A trial runs a program. forget decides which parts are not registered.
type trial func(forget func(operator string, number int, saved bool) bool) error

// program returns the trial of a random program that probably contains the operator want.
func program(table []operator, n, want int) trial {
	rng := rand.New(rand.NewPCG(*seed, uint64(n)))
	p, h := makeOf(table, rng, 3+n%14, want)
	s := rng.Uint64()
	return func(forget func(string, int, bool) bool) error { return logDrivenForgetting(p, h, s, forget) }
}

// trials returns random programs, with each operator of the table once, and flows by hand.
func trials(table []operator) (all []trial) {
	for n := range len(table) {
		all = append(all, program(table, n, n%len(table)))
	}
	return append(all, histories(0)...)
}

// histories returns the flows by hand, each a few times.
func histories(from uint64) (all []trial) {
	for _, name := range flowNames() {
		for n := range uint64(long.Of(3, 12)) {
			all = append(all, func(forget func(string, int, bool) bool) error {
				return logDrivenByHand(byHand[name], rand.New(rand.NewPCG(*seed, from+n)), forget)
			})
		}
	}
	return all
}

// TestForgotten takes each part of the memory of each operator in turn and does not register it: the
// part is neither saved nor cleared at the end of a run. Then some random program or some flow by hand
// must behave differently. It fails for an operator whose memory no test exercises. Some parts need a
// certain history. Only the long search looks for one, and the short search requires that two of three
// parts are noticed at once.
func TestForgotten(t *testing.T) {
	table := durables()
	having := make(map[part][]trial)
	for i, try := range trials(table) {
		found := make(map[part]bool)
		if err := try(func(operator string, number int, saved bool) bool {
			operator, _, _ = strings.Cut(operator, " ")
			found[part{operator, number, saved}] = true
			return false
		}); err != nil {
			t.Fatalf("trial %d, with nothing forgotten: %v\n%s", i, err, rerun(t))
		}
		for x := range found {
			having[x] = append(having[x], try)
		}
	}
	if len(having) < 100 {
		t.Errorf("only %d parts", len(having))
	}
	missed := 0
	for x, some := range having {
		reason, known := unnoticed[x]
		if known && !long.Searches() {
			continue
		}
		notices := func(try trial) bool { return try(x.is) != nil }
		noticed := slices.ContainsFunc(some, notices)
		if !noticed && !known { // it may need a certain history
			if !long.Searches() {
				missed++
				continue
			}
			var variants []int
			for i, op := range table {
				if op.is(x.operator) {
					variants = append(variants, i)
				}
			}
			for n := 0; n < 2000 && len(variants) > 0 && !noticed; n++ {
				noticed = notices(program(table, 1000+n, variants[n%len(variants)]))
			}
			for from := uint64(100); from < 105 && !noticed; from++ {
				noticed = slices.ContainsFunc(histories(from*100), notices)
			}
		}
		switch {
		case !noticed && !known:
			t.Errorf("%v: nothing notices that it is forgotten, in %d trials and more\n%s", x, len(some), rerun(t))
		case noticed && known:
			t.Errorf("%v: it is noticed, although %s", x, reason)
		}
	}
	if missed > len(having)/3 {
		t.Errorf("of %d parts %d are not noticed at once when they are forgotten\n%s", len(having), missed, rerun(t))
	}
	for x := range unnoticed {
		if having[x] == nil {
			t.Errorf("%v: there is no such part", x)
		}
	}
}

// is reports whether o draws an operator.
func (o operator) is(name string) bool {
	own, _, _ := strings.Cut(o.name, ",")
	return own == name || slices.Contains(o.also, name)
}
