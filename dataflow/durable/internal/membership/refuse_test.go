package membership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"
)

// TestSet compares sets with maps.
func TestSet(t *testing.T) {
	holds(t, prop.ForAll(func(moves []int) *gopter.PropResult {
		var s Set
		is := make(map[int]bool)
		for _, x := range moves {
			before, p := slices.Clone(s), x/2
			was := s
			if is[p] = x%2 == 0; is[p] {
				s = s.With(p)
			} else {
				s = s.Without(p)
			}
			if !slices.Equal(was, before) {
				return result(false, "a set was changed in place")
			}
		}
		for p := range 2100 {
			if s.Has(p) != is[p] {
				return result(false, "Has(%d) = %v", p, s.Has(p))
			}
		}
		return result(!s.Has(-1) && (len(s) == 0 || s[len(s)-1] != 0), "%v", s)
	}, gen.SliceOf(gen.IntRange(0, 4000))))
}

// refusing draws for each member and partition whether the member accepts it, refuses it for now or
// refuses it for good.
func refusing(ids []string, partitions int, draw int64) map[string]*Refusals {
	r := rand.New(rand.NewPCG(uint64(draw), 2))
	all := make(map[string]*Refusals)
	for _, id := range ids {
		of, often := new(Refusals), 1+r.IntN(4)
		for p := range partitions {
			switch r.IntN(2 * often) {
			case 0:
				of.Never = of.Never.With(p)
			case 1:
				of.NotNow = of.NotNow.With(p)
			}
		}
		all[id] = of
	}
	return all
}

// TestOwnersRefused compares Owners with its definition: the owner is chosen by weight among the
// members that refuse a partition least. The order of members does not matter. One more refusal
// moves only its partition, and only away from the refusing member.
func TestOwnersRefused(t *testing.T) {
	holds(t, prop.ForAll(func(ids []string, partitions int, draw int64) *gopter.PropResult {
		refuses := refusing(ids, partitions, draw)
		got := Owners(partitions, ids, refuses)
		for p, id := range got {
			least := 2
			for _, id := range ids {
				least = min(least, refuses[id].rank(p))
			}
			var can []string
			for _, id := range ids {
				if refuses[id].rank(p) == least {
					can = append(can, id)
				}
			}
			if want := Owners(partitions, can, nil)[p]; id != want {
				return result(false, "%d is of %s, want %s of %v", p, id, want, can)
			}
		}
		r := rand.New(rand.NewPCG(uint64(draw), 3))
		mixed := slices.Clone(ids)
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if !slices.Equal(got, Owners(partitions, mixed, refuses)) {
			return result(false, "the order of %v matters", mixed)
		}
		p, id := r.IntN(partitions), ids[r.IntN(len(ids))]
		before := *refuses[id]
		refuses[id] = &Refusals{NotNow: before.NotNow.Without(p), Never: before.Never.With(p)}
		for q, now := range Owners(partitions, ids, refuses) {
			if now != got[q] && (q != p || got[q] != id) {
				return result(false, "%d moved from %s to %s when %s refused %d", q, got[q], now, id, p)
			}
		}
		return result(true, "")
	}, members, gen.IntRange(1, 300), gen.Int64()))
}

// lessRefused reports whether a member refuses some partition less than the partition's owner does.
func lessRefused(v *view, id string, owners []string) bool {
	for p, owner := range owners {
		if v.peers[id].rank(p) < v.peers[owner].rank(p) {
			return true
		}
	}
	return false
}

// TestOwnersRefusedGolden pins the owners of refused partitions, because processes must agree on
// them.
func TestOwnersRefusedGolden(t *testing.T) {
	refuses := map[string]*Refusals{"a": {Never: Set{0xff, 0x0f}}, "b": {NotNow: Set{0x0f}}, "c": {Never: Set{0x33}}}
	var got string
	for _, id := range Owners(16, []string{"a", "b", "c"}, refuses) {
		got += id
	}
	if want := "bbccbbccccbcbccc"; got != want {
		t.Errorf("Owners = %s, want %s", got, want)
	}
}

// TestRefuse has one, two and then all three members refuse a partition, and then one of them accept
// it again. All members agree each time. Refuse reports true when the partition has returned because
// all refuse it.
func TestRefuse(t *testing.T) {
	s := startServer(t)
	o := Options{Lease: time.Minute, Probe: -1} // so that only refusals that are sent at once have an effect
	var all []*Member
	var logs []*log
	for _, id := range []string{"a", "b", "c"} {
		o.ID = id
		m, _ := join(t, s.ClientURL(), o)
		all = append(all, m)
		logs = append(logs, follow(m))
	}
	agree(t, 32, all...)
	owner := func(p int) int {
		return slices.IndexFunc(all, func(m *Member) bool { return slices.Contains(m.Owned(), p) })
	}
	const p = 7
	var refused []int
	for range 3 {
		i := owner(p)
		if slices.Contains(refused, i) {
			t.Fatalf("%s owns what it refuses, and others do not refuse it", all[i].ID())
		}
		if all[i].Refuse(p, false, fmt.Sprint("reason ", i)) {
			t.Fatal("kept what was refused for the first time")
		}
		refused = append(refused, i)
		until(t, "another owner", func() bool { j := owner(p); return j >= 0 && (j != i || len(refused) == 3) })
		agree(t, 32, all...)
	}
	i := owner(p)
	next := logs[i].len()
	if !all[i].Refuse(p, false, "again") {
		t.Error("all refuse it, and it has come back")
	}
	other := all[(i+1)%3]
	other.Accept(p)
	logs[i].wait(t, next, "a part without it", func(e entry) bool { return !slices.Contains(e.owned, p) })
	until(t, "the one that accepts", func() bool { return slices.Contains(other.Owned(), p) })
	agree(t, 32, all...)
	seen, err := Look(soon(t), other.nc, "app")
	if err != nil {
		t.Fatal(err)
	}
	if len(seen.Peers) != 3 || seen.Owners[p] != other.ID() || !seen.Peers[i].NotNow.Has(p) || seen.Peers[(i+1)%3].NotNow.Has(p) || seen.Peers[i].Why != "again" {
		t.Errorf("who looks sees %+v", seen)
	}
	other.Refuse(p, true, "for good") // now the members that refuse it only for now are preferred
	until(t, "one that may run it", func() bool { j := owner(p); return j >= 0 && all[j] != other })
	agree(t, 32, all...)
	if got, err := Look(soon(t), other.nc, "nobody"); err != nil || len(got.Peers) != 0 {
		t.Errorf("without a bucket: %+v, %v", got, err)
	}
}

// TestRefuseAlone has the only member refuse every partition. Each comes back, and the second
// refusal keeps it.
func TestRefuseAlone(t *testing.T) {
	s := startServer(t)
	a, _ := join(t, s.ClientURL(), Options{ID: "a", Lease: time.Minute})
	log := follow(a)
	log.wait(t, 0, "everything", owns(32))
	for p := range 32 {
		if a.Refuse(p, true, "") {
			t.Errorf("kept %d", p)
		}
	}
	until(t, "everything again", func() bool { return len(a.Owned()) == 32 })
	for p := range 32 {
		if !a.Refuse(p, true, "") {
			t.Errorf("%d has come back, and is not kept", p)
		}
	}
	if a.Refuse(-1, true, "") || a.Refuse(32, true, "") {
		t.Error("kept a partition that does not exist")
	}
	if n := a.Counters().Renewals; n > 34 {
		t.Errorf("%d renewals", n)
	}
}
