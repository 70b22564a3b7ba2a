package durable

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A worn log returns damaged pieces and a damaged snapshot.
type worn struct {
	*journal.Memory
	pieces   func([]journal.Piece) []journal.Piece
	snapshot func([]byte) []byte
}

func (l worn) Pieces(ctx context.Context, p int, first, last uint64) ([]journal.Piece, error) {
	all, err := l.Memory.Pieces(ctx, p, first, last)
	return l.pieces(slices.Clone(all)), err
}

func (l worn) Restore(ctx context.Context, p int) (*journal.History, error) {
	h, err := l.Memory.Restore(ctx, p)
	if err == nil && h.Snapshot != nil {
		h.Snapshot = l.snapshot(slices.Clone(h.Snapshot))
	}
	return h, err
}

// wears are the ways to damage a piece. Each returns the damaged piece, or nil if the piece is
// removed.
var wears = map[string]func(data, earlier []byte) []byte{
	"bit at start":  func(data, _ []byte) []byte { return flip(data, .1) },
	"bit in middle": func(data, _ []byte) []byte { return flip(data, .5) },
	"bit at end":    func(data, _ []byte) []byte { return flip(data, .99) },
	"cut short":     func(data, _ []byte) []byte { return data[:len(data)-7] },
	"emptied":       func([]byte, []byte) []byte { return []byte{} },
	"removed":       func([]byte, []byte) []byte { return nil },
	"an older one":  func(_, earlier []byte) []byte { return earlier },
}

// TestDamagedPieces starts flows on snapshots with damaged pieces. If only the last snapshot has
// the damaged piece, the flow uses the snapshot before it and replays the steps since. Otherwise
// the error says what is damaged.
func TestDamagedPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, accounts, Options{SnapshotAge: time.Minute})
		post(t, app, filled(5000)...)
		for range 98 {
			post(t, app, posting{Of: []int{17}})
		}
		for range 3 {
			time.Sleep(3 * time.Minute)
			post(t, app, posting{Of: []int{18}})
		}
		time.Sleep(3 * time.Minute)
		log.Crash()
		<-app.Done()

		h, err := log.Reopen().Restore(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		s, err := newest(app.core.originOf(0), h.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		first, last := s.runs[0].first, s.runs[len(s.runs)-1].last
		account := 100 // not used so far
		intact := func(b []byte) []byte { return b }
		for what, wear := range wears {
			worn := worn{log.Reopen(), nil, intact}
			for _, from := range []uint64{last, 0} {
				worn.pieces = func(all []journal.Piece) []journal.Piece {
					earlier := all[0].Data
					for i := range all {
						if all[i].Number >= from {
							data := wear(slices.Clone(all[i].Data), earlier)
							earlier, all[i].Data = all[i].Data, data
						}
					}
					return slices.DeleteFunc(all, func(p journal.Piece) bool { return p.Data == nil })
				}
				if from == 0 {
					if what == "an older one" {
						continue // the first piece has no earlier one
					}
					notBegun(t, what, worn, "its state")
				} else if what == "an older one" && first == last {
					t.Fatal("there is one piece")
				} else {
					account++
					begun(t, what, worn, account)
				}
			}
		}
		worn := worn{log.Reopen(), func(all []journal.Piece) []journal.Piece { return all }, intact}
		lastOne, _, err := lastTwo(h.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []float64{.2, .6, .95} { // in the last snapshot only, and in both
			worn.snapshot = func(b []byte) []byte {
				b[3+int(at*float64(len(lastOne)-4))] ^= 4
				return b
			}
			account++
			begun(t, "the last snapshot", worn, account)
			worn.snapshot = func(b []byte) []byte {
				b[3+int(at*float64(len(lastOne)-4))] ^= 4
				b[len(b)-9] ^= 4
				return b
			}
			notBegun(t, "both snapshots", worn, "snapshot")
		}
	})
}

// A late log returns the pieces of an alone log, but not all of them at once.
type late struct {
	alone
	asked *int
}

func (l late) Pieces(ctx context.Context, p int, first, last uint64) ([]journal.Piece, error) {
	all, err := l.Memory.Pieces(ctx, p, first, last)
	if *l.asked++; *l.asked < 5 && len(all) > 0 {
		all = all[:len(all)-1]
	}
	return all, err
}

// TestLatePieces restores from a server that has just become the leader and does not have all
// pieces yet.
func TestLatePieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, accounts, Options{SnapshotAge: time.Minute})
		post(t, app, filled(5000)...)
		stop(t, app)

		asked := 0
		o := &owner{core: app.core, of: app.core.originOf(0)}
		o.log, o.shared = log.Reopen(), late{alone{log.Reopen()}, &asked}
		o.core.log = o.shared
		h, err := o.log.Restore(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.follow(t.Context(), h); err != nil || asked < 5 {
			t.Errorf("restored with pieces asked for %d times: %v", asked, err)
		}
	})
}

// begun checks that a flow starts and has an account with exactly one posting.
func begun(t *testing.T, what string, log worn, of int) {
	t.Helper()
	var said strings.Builder
	log.Memory = log.Reopen()
	opts := Options{Logger: slog.New(slog.NewTextHandler(&said, nil)), SnapshotAge: time.Hour, Log: journal.Opened{Log: log}}
	app, err := Start(t.Context(), accounts, opts)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !strings.Contains(said.String(), "the snapshot before the last one is used") {
		t.Errorf("%s: nothing was said of it: %s", what, said.String())
	}
	post(t, app, posting{Of: slices.Repeat([]int{of}, 99)})
	for last := int64(0); ; { // earlier outputs come again
		sum, err := app.Ports.every.Next(t.Context())
		if sum == 100*int64(of) {
			break
		}
		if err != nil || sum <= last {
			t.Fatalf("%s: the hundredth posting gives %d (%v), want %d", what, sum, err, 100*of)
		}
		last = sum
	}
	app.core.abandoned.Store(true) // make no further snapshot
	stop(t, app)
}

// notBegun checks that Start is refused with an error that contains want.
func notBegun(t *testing.T, what string, log worn, want string) {
	t.Helper()
	log.Memory = log.Reopen()
	_, err := Start(t.Context(), accounts, quiet(Options{Log: journal.Opened{Log: log}}))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want an error that says %q", what, err, want)
	}
}
