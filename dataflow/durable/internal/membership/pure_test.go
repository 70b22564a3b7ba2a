package membership

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"
)

var seed = flag.Int64("seed", 0, "seed of the random tests; 0 takes one from the clock")

// holds checks a property with a seed and prints how to repeat a failure.
func holds(t *testing.T, law gopter.Prop) {
	t.Helper()
	s := *seed
	if s == 0 {
		s = time.Now().UnixNano()
	}
	params := gopter.DefaultTestParametersWithSeed(s)
	props := gopter.NewProperties(params)
	props.Property(t.Name(), law)
	var report bytes.Buffer
	if !props.Run(gopter.NewFormatedReporter(false, 100, &report)) {
		t.Errorf("%s\nrerun: go test ./dataflow/durable/internal/membership -run '^%s$' -seed %d", &report, strings.Split(t.Name(), "/")[0], s)
	}
}

func result(ok bool, format string, args ...any) *gopter.PropResult {
	if ok {
		return gopter.NewPropResult(true, "")
	}
	return gopter.NewPropResult(false, fmt.Sprintf(format, args...))
}

// members draws random IDs, and numbered ones, which differ only at the end.
var members = gen.SliceOfN(12, gen.OneGenOf(gen.Identifier(), gen.IntRange(0, 99).Map(func(i int) string { return fmt.Sprint("w", i) }))).
	Map(func(ids []string) []string {
		slices.Sort(ids)
		return slices.Compact(ids)
	})

var manyPartitions = gen.IntRange(1, 4096)

// TestOwnersBalance checks that shares differ by no more than chance: six standard deviations
// are exceeded once in a billion.
func TestOwnersBalance(t *testing.T) {
	holds(t, prop.ForAll(func(ids []string, partitions int) *gopter.PropResult {
		count := make(map[string]int)
		for _, id := range Owners(partitions, ids, nil) {
			count[id]++
		}
		for _, id := range ids {
			mean := float64(partitions) / float64(len(ids))
			if d := math.Abs(float64(count[id]) - mean); d > 6*math.Sqrt(mean)+6 {
				return result(false, "%s has %d of %d among %d", id, count[id], partitions, len(ids))
			}
		}
		return result(true, "")
	}, members, manyPartitions))
}

// TestOwnersStable adds a member and checks that partitions move only to it. Read backwards,
// this is the removal of a member. The order of the members does not matter.
func TestOwnersStable(t *testing.T) {
	holds(t, prop.ForAll(func(ids []string, partitions int, joiner string, shuffle int64) *gopter.PropResult {
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == joiner })
		before := Owners(partitions, ids, nil)
		mixed := append(slices.Clone(ids), joiner)
		rand.New(rand.NewPCG(uint64(shuffle), 1)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		for p, id := range Owners(partitions, mixed, nil) {
			if !slices.Contains(mixed, id) {
				return result(false, "%d is of %q, who is no member", p, id)
			}
			if id != joiner && id != before[p] {
				return result(false, "%d moved from %s to %s when %s joined", p, before[p], id, joiner)
			}
		}
		return result(slices.Equal(Owners(partitions, mixed, nil), Owners(partitions, append(ids, joiner), nil)), "the order of %v matters", mixed)
	}, members, manyPartitions, gen.Identifier(), gen.Int64()))
}

// TestOwnersGolden pins the hash, because processes of different versions must agree on it.
func TestOwnersGolden(t *testing.T) {
	got := strings.Join(Owners(16, []string{"a", "b", "c"}, nil), "")
	if want := "caaabcccccbcbccc"; got != want {
		t.Errorf("Owners(16, a b c) = %s, want %s", got, want)
	}
	if got := Owners(16, nil, nil); got != nil {
		t.Errorf("Owners without members = %v", got)
	}
}

// A world holds the views of three members. All members see the same sequence of leases, each
// at its own pace. Each has its own probes.
type world struct {
	now    time.Time
	shown  []func(v *view, now time.Time) // the history of the bucket
	views  []*view
	seen   []int // how much of the history each view has seen
	number []uint64
	refuse []Refusals
}

const (
	worldPartitions = 16
	worldLease      = 3 * time.Second
)

func newWorld() *world {
	w := &world{now: time.Unix(1_000_000, 0), number: make([]uint64, 3), refuse: make([]Refusals, 3), seen: make([]int, 3)}
	for i := range 3 {
		v := newView(w.id(i), int64(1+i), worldPartitions, worldLease)
		v.begin()
		v.shown()
		w.views = append(w.views, v)
	}
	return w
}

func (w *world) id(i int) string { return string(rune('a' + i)) }

// step makes one move, which the number encodes.
func (w *world) step(move int) {
	i, other := move%3, (move+1+move/9%2)%3
	v := w.views[i]
	switch move / 3 % 13 {
	case 0, 1, 2:
		w.renew(i)
	case 3: // the lease expires or is given back
		id := w.id(i)
		w.shown = append(w.shown, func(v *view, now time.Time) { v.gone(id, now) })
	case 4, 5:
		w.watch(i, 1+move%4)
	case 6:
		v.answer(w.id(other))
	case 7, 8:
		v.silence(w.id(other))
	case 9:
		w.now = w.now.Add(time.Duration(move%7) * 200 * time.Millisecond)
	case 10:
		v.connected()
	case 11: // a new watch shows the latest lease of each member again
		w.watch(i, len(w.shown))
		v.begin()
		for id, p := range v.peers {
			v.put(id, p.lease, p.revision, w.now)
		}
		v.shown()
	case 12:
		r, p := &w.refuse[i], move/39%worldPartitions
		switch move / 1000 % 3 {
		case 0:
			*r = Refusals{Never: r.Never.Without(p), NotNow: r.NotNow.Without(p)}
		case 1:
			r.Never = r.Never.With(p)
		case 2:
			r.NotNow = r.NotNow.With(p)
		}
		w.renew(i)
	}
	for _, v := range w.views {
		v.lapse(w.now)
	}
}

func (w *world) renew(i int) {
	w.number[i]++
	l, id, revision := lease{Started: w.views[i].started, Renewal: w.number[i], Refusals: w.refuse[i]}, w.id(i), uint64(len(w.shown)+1)
	w.views[i].renewing(l.Renewal, w.now)
	w.shown = append(w.shown, func(v *view, now time.Time) { v.put(id, l, revision, now) })
}

func (w *world) watch(i, n int) {
	for ; n > 0 && w.seen[i] < len(w.shown); n-- {
		w.shown[w.seen[i]](w.views[i], w.now)
		w.seen[i]++
	}
}

// TestViews makes random moves and checks the invariants of each view after each move. Then
// it checks that all views agree after enough renewals by all members.
func TestViews(t *testing.T) {
	holds(t, prop.ForAll(func(moves []int) *gopter.PropResult {
		w := newWorld()
		for n, move := range moves {
			w.step(move)
			for _, v := range w.views {
				live := v.live(w.now)
				owners := v.owners(live)
				owned := v.owned(owners, w.now)
				switch {
				case len(owners) != worldPartitions && len(live) > 0:
					return result(false, "move %d: %d owners among %v", n, len(owners), live)
				case slices.ContainsFunc(owners, func(id string) bool { return !slices.Contains(live, id) }):
					return result(false, "move %d: owners %v are not among %v", n, owners, live)
				case len(owned) > 0 && !w.now.Before(v.until):
					return result(false, "move %d: %s owns %v after its lease", n, v.self, owned)
				case v.until.After(w.now.Add(worldLease)):
					return result(false, "move %d: %s has a lease until %v, longer than a lease from %v", n, v.self, v.until, w.now)
				case slices.ContainsFunc(live, func(id string) bool { return lessRefused(v, id, owners) }):
					return result(false, "move %d: owners %v among %v, and another one refuses less", n, owners, live)
				case slices.ContainsFunc(owned, func(p int) bool { return owners[p] != v.self }):
					return result(false, "move %d: %s owns %v of %v", n, v.self, owned, owners)
				}
			}
		}
		for range maxRenewalsToReturn {
			w.now = w.now.Add(worldLease / 6)
			for i := range w.views {
				w.renew(i)
			}
			for i := range w.views {
				w.watch(i, len(w.shown))
			}
		}
		owner := make(map[int]string)
		for _, v := range w.views {
			live := v.live(w.now)
			if len(live) != 3 {
				return result(false, "%s sees only %v", v.self, live)
			}
			for _, p := range v.owned(v.owners(live), w.now) {
				if owner[p] != "" {
					return result(false, "%d is of %s and %s", p, owner[p], v.self)
				}
				owner[p] = v.self
			}
		}
		return result(len(owner) == worldPartitions, "only %v have owners", owner)
	}, gen.SliceOfN(200, gen.IntRange(0, 1<<20))))
}

// table returns a view of member a that contains b, and its time.
func table() (v *view, now time.Time) {
	now = time.Unix(1_000_000, 0)
	v = newView("a", 1, 8, 3*time.Second)
	v.begin()
	v.renewing(1, now)
	v.put("a", lease{Started: 1, Renewal: 1}, 1, now)
	v.put("b", lease{Started: 2, Renewal: 1}, 2, now)
	v.shown()
	return v, now
}

// suspect has b answer once and then stay silent.
func suspect(v *view) (suspected bool) {
	v.answer("b")
	v.silence("b")
	_, suspected = v.silence("b")
	return suspected
}

// TestSuspicion checks that one silence is not enough, that a member that never answered is
// not suspected, and that each return takes twice as many renewals.
func TestSuspicion(t *testing.T) {
	v, now := table()
	if again, suspected := v.silence("b"); again || suspected {
		t.Error("suspected before it ever answered")
	}
	v.answer("b")
	if again, suspected := v.silence("b"); !again || suspected {
		t.Errorf("first silence: again %v, suspected %v", again, suspected)
	}
	v.answer("b")
	if _, suspected := v.silence("b"); suspected {
		t.Error("suspected after an answer and one silence")
	}
	v.connected()
	if _, suspected := v.silence("b"); suspected {
		t.Error("suspected before it answered on this connection")
	}
	revision := uint64(2)
	renew := func() bool {
		revision++
		return v.put("b", lease{Started: 2, Renewal: revision}, revision, now)
	}
	for _, want := range []int{2, 4, 8, 16, 16} {
		if !suspect(v) {
			t.Fatal("not suspected")
		}
		if got := v.live(now); !slices.Equal(got, []string{"a"}) {
			t.Errorf("with b suspected: %v", got)
		}
		v.answer("b") // late, and not enough
		n := 1
		for !renew() {
			n++
		}
		if n != want {
			t.Errorf("back after %d renewals, want %d", n, want)
		}
		if _, suspected := v.silence("b"); suspected {
			t.Error("suspected again before it answered again")
		}
	}
	for range renewalsToForgive {
		renew()
	}
	suspect(v)
	if renew() || !renew() {
		t.Error("not forgiven")
	}
	suspect(v)
	if v.put("b", lease{Started: 3, Renewal: 1}, revision+1, now); len(v.live(now)) != 2 {
		t.Error("the next process with the same ID is suspected")
	}
	if v.put("b", lease{Started: 2, Renewal: 99}, revision+2, now); v.peers["b"].Started != 3 {
		t.Error("the last sign of the one before counts")
	}
}

// TestLapse ends the member's own lease while b is present and while it is not.
func TestLapse(t *testing.T) {
	for _, back := range []bool{true, false} {
		v, now := table()
		owned := func() int { return len(v.owned(v.owners(v.live(now)), now)) }
		now = now.Add(3*time.Second - 1)
		if owned() == 0 || v.lapse(now) {
			t.Error("the lease ends too early")
		}
		now = now.Add(1)
		if owned() != 0 || len(v.owned(Owners(8, []string{"a"}, nil), now)) != 0 {
			t.Error("owns after the lease, before anybody noticed")
		}
		if !v.lapse(now) || v.lapse(now) {
			t.Error("the end of the lease is to be noticed once")
		}
		if !back {
			v.gone("b", now)
		}
		now = now.Add(time.Second)
		v.renewing(2, now)
		sent := now
		now = now.Add(time.Second)
		v.put("a", lease{Started: 1, Renewal: 2}, 3, now)
		if want := sent.Add(3 * time.Second); v.until != want {
			t.Errorf("a lease until %v, want %v: a lease after it was sent", v.until, want)
		}
		if got := owned() > 0; got != back {
			t.Errorf("with b there %v: owns at once %v", back, got)
		}
		now = now.Add(500 * time.Millisecond)
		if owned() == 0 {
			t.Error("waits for ever")
		}
	}
}

// TestForeignRenewal shows a member leases under its ID that it did not write.
func TestForeignRenewal(t *testing.T) {
	v, now := table()
	v.put("a", lease{Started: 1, Renewal: 7}, 3, now.Add(time.Second))
	if v.until != now.Add(3*time.Second) {
		t.Error("a renewal that was not sent prolongs the lease")
	}
	v.put("a", lease{Started: 0, Renewal: 9}, 4, now)
	if v.superseded {
		t.Error("superseded by who came before")
	}
	v.put("a", lease{Started: 5, Renewal: 1}, 5, now)
	if !v.superseded || v.owned(Owners(8, []string{"a"}, nil), now) != nil || slices.Contains(v.live(now), "a") {
		t.Error("owns although superseded")
	}
}

// TestLaggingWatch starts a watch at a replica that lags behind. The view keeps all members
// until the watch shows its own latest lease. Then it drops the members that the watch did
// not show.
func TestLaggingWatch(t *testing.T) {
	v, now := table()
	v.renewing(2, now)
	v.put("a", lease{Started: 1, Renewal: 2}, 3, now)
	v.begin()
	v.put("a", lease{Started: 1, Renewal: 1}, 1, now)
	v.shown()
	if got := v.live(now); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("a watch that lags behind: %v", got)
	}
	v.put("a", lease{Started: 1, Renewal: 2}, 3, now)
	if got := v.live(now); !slices.Equal(got, []string{"a"}) {
		t.Errorf("a watch that is as new as the one before: %v", got)
	}
	if len(v.owned(v.owners(v.live(now)), now)) != 8 {
		t.Error("the own lease was shortened")
	}
}
