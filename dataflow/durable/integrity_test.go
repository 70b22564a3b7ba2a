package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A rotten log returns something else than was written to it. It looks consistent: no position and
// no fence shows that something is wrong.
type rotten struct {
	*journal.Memory
	messages func([]journal.Message) []journal.Message
	history  func(*journal.History)
}

func (l rotten) Read(ctx context.Context, p int, after uint64) (journal.Reader, error) {
	r, err := l.Memory.Read(ctx, p, after)
	if err != nil || l.messages == nil {
		return r, err
	}
	return rottenReader{r, l}, nil
}

func (l rotten) ReadAhead(ctx context.Context, p int, after uint64) (journal.Reader, error) {
	return l.Read(ctx, p, after)
}

func (l rotten) Restore(ctx context.Context, p int) (*journal.History, error) {
	h, err := l.Memory.Restore(ctx, p)
	if err == nil && l.history != nil {
		h.Snapshot, h.Steps = slices.Clone(h.Snapshot), slices.Clone(h.Steps)
		for i := range h.Steps {
			h.Steps[i].Data = slices.Clone(h.Steps[i].Data)
		}
		l.history(h)
	}
	return h, err
}

// Steps returns the steps of the history without a snapshot.
func (l rotten) Steps(ctx context.Context, p int, after uint64) (journal.StepReader, error) {
	h, err := l.Restore(ctx, p)
	if err != nil || l.history == nil || len(h.Steps) == 0 {
		return l.Memory.Steps(ctx, p, after)
	}
	return &rottenSteps{h.Steps}, nil
}

type rottenSteps struct{ left []journal.Step }

func (r *rottenSteps) Next(ctx context.Context) (s journal.Step, err error) {
	if len(r.left) == 0 {
		return s, journal.ErrClosed
	}
	s, r.left = r.left[0], r.left[1:]
	return s, nil
}

func (*rottenSteps) Close() {}

type rottenReader struct {
	journal.Reader
	log rotten
}

func (r rottenReader) Next(ctx context.Context, max int) ([]journal.Message, error) {
	for {
		ms, err := r.Reader.Next(ctx, max)
		if err != nil {
			return nil, err
		}
		ms = slices.Clone(ms)
		for i := range ms {
			ms[i].Records = slices.Clone(ms[i].Records)
			for j := range ms[i].Records {
				ms[i].Records[j] = slices.Clone(ms[i].Records[j])
			}
		}
		if ms = r.log.messages(ms); len(ms) > 0 {
			return ms, nil
		}
	}
}

// flip returns b with one bit changed, at a fraction from 0 to 1 of its length.
func flip(b []byte, at float64) []byte {
	b[int(at*float64(len(b)-1))] ^= 0x10
	return b
}

// TestRottenLog starts flows on logs that do not notice what they have lost or changed. The start
// fails, or the flow ends as soon as it reads the damage. The error says in which partition what is
// wrong, and what to do.
func TestRottenLog(t *testing.T) {
	const records, waiting = 6, 3 // records that steps have taken, and that no step has taken
	message := func(n int, do func(*journal.Message)) func([]journal.Message) []journal.Message {
		return func(ms []journal.Message) []journal.Message {
			for i := range ms {
				if n < 0 || ms[i].Position == uint64(n) {
					do(&ms[i])
				}
			}
			return ms
		}
	}
	without := func(n int) func([]journal.Message) []journal.Message {
		return func(ms []journal.Message) []journal.Message {
			return slices.DeleteFunc(ms, func(m journal.Message) bool { return m.Position == uint64(n) })
		}
	}
	type damage struct {
		lost     [2]int // number of keys that a salvage loses, after a kill and after a stop
		messages func(taken, end int) func([]journal.Message) []journal.Message
		history  func(*journal.History)
		want     string
		steps    bool // needs steps after a snapshot
		snapshot bool // needs a snapshot
	}
	damages := map[string]damage{
		"nothing": {},
		"a bit of the last record": {lost: [2]int{1, 1}, messages: func(_, end int) func([]journal.Message) []journal.Message {
			return message(end, func(m *journal.Message) { flip(m.Records[0], .7) })
		}, want: "checksum"},
		"a bit of a record that waits": {lost: [2]int{1, 1}, messages: func(_, end int) func([]journal.Message) []journal.Message {
			return message(end-1, func(m *journal.Message) { flip(m.Records[0], 0.9) })
		}, want: "checksum"},
		"a bit of a record that a step took": {lost: [2]int{1, 0}, messages: func(taken, _ int) func([]journal.Message) []journal.Message {
			return message(taken, func(m *journal.Message) { flip(m.Records[0], .9) })
		}, want: "checksum"},
		"a record that a step took is another one": {lost: [2]int{1, 0}, messages: func(taken, _ int) func([]journal.Message) []journal.Message {
			return message(taken, func(m *journal.Message) {
				m.Records[0] = origin{history: historyOf(m)}.record(nil, 0, []byte("another"))
			})
		}, want: "records"},
		"records of another history": {lost: [2]int{9, 3}, messages: func(_, _ int) func([]journal.Message) []journal.Message {
			return message(-1, func(m *journal.Message) {
				m.Records[0] = origin{history: [4]byte{9, 9, 9, 9}}.record(nil, 0, []byte("another"))
			})
		}, want: "another history"},
		"records of another partition": {lost: [2]int{9, 3}, messages: func(_, _ int) func([]journal.Message) []journal.Message {
			return message(-1, func(m *journal.Message) {
				m.Records[0] = origin{historyOf(m), 7}.record(nil, 0, m.Records[0][frameSize+1:])
			})
		}, want: "checksum"},
		"a message in the middle is gone": {lost: [2]int{1, 0}, steps: true, messages: func(taken, _ int) func([]journal.Message) []journal.Message {
			return without(taken - 2)
		}, want: "gone"},
		"a record of two is gone": {lost: [2]int{1, 0}, steps: true, messages: func(taken, _ int) func([]journal.Message) []journal.Message {
			return message(taken-2, func(m *journal.Message) { m.Records = m.Records[:0] })
		}, want: "other records"},
		"a bit of a step":        {steps: true, history: func(h *journal.History) { flip(h.Steps[1].Data, .5) }, want: "checksum"},
		"a bit of the last step": {steps: true, history: func(h *journal.History) { flip(h.Steps[len(h.Steps)-1].Data, .8) }, want: "checksum"},
		"a step in the middle":   {steps: true, history: func(h *journal.History) { h.Steps = slices.Delete(h.Steps, 2, 3) }, want: "does not follow"},
		"a step is there twice":  {steps: true, history: func(h *journal.History) { h.Steps[2] = h.Steps[1] }, want: "does not follow"},
		"a step is another one": {steps: true, history: func(h *journal.History) { // all numbers in it fit
			of := origin{history: [4]byte(h.Steps[1].Data[1:5])}
			s, err := decodeStep(of, h.Steps[1].Data)
			if err != nil {
				panic(err)
			}
			s.now++
			h.Steps[1].Data = s.encode(of)
		}, want: "does not follow"},
		"the last steps are gone":  {steps: true, history: func(h *journal.History) { h.Steps = h.Steps[:2]; h.Fence = h.Steps[1].Fence }, want: "steps are an older copy"},
		"a bit of the snapshot":    {snapshot: true, history: func(h *journal.History) { flip(h.Snapshot, .6) }, want: "checksum"},
		"the snapshot's last byte": {snapshot: true, history: func(h *journal.History) { flip(h.Snapshot, 1) }, want: "checksum"},
	}
	for name, d := range damages {
		for _, stopped := range []bool{false, true} {
			if d.steps && stopped || d.snapshot && !stopped {
				continue
			}
			t.Run(fmt.Sprintf("%s/stopped=%v", name, stopped), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					log := journal.NewMemory(journal.MemoryOptions{})
					app := start(t, log, keptProcess, Options{SnapshotAge: time.Hour})
					put := func(app *App[keptPorts], n int) {
						if err := app.Ports.in.Put(t.Context(), fmt.Sprint("k", n), "v"); err != nil {
							t.Fatal(err)
						}
					}
					for n := range records {
						put(app, n)
					}
					taken := int(app.core.gateway.partitions[0].takenUpTo())
					if stopped {
						stop(t, app)
					} else {
						log.Crash()
						<-app.Done()
					}
					log = log.Reopen()
					// A record that no step takes: a sender that knows the last step appends it
					// without the flow.
					of := app.core.originOf(0)
					h, err := log.Restore(t.Context(), 0)
					if err != nil {
						t.Fatal(err)
					}
					end := taken
					for n := range waiting {
						r := putRecord(t, app, fmt.Sprint("w", n))
						at, err := log.Append(t.Context(), 0, of.record(nil, h.Fence, r))
						if err != nil {
							t.Fatal(err)
						}
						end = int(at)
					}
					bad := rotten{Memory: log, history: d.history}
					if d.messages != nil {
						bad.messages = d.messages(taken, end)
					}
					all, err := Check(t.Context(), quiet(Options{Log: journal.Opened{Log: bad}}))
					if len(all) != 1 || d.want == "" && (err != nil || all[0].Waiting != waiting || all[0].Last != h.Fence) || d.want != "" && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "partition 0")) {
						t.Errorf("Check: %+v, %v, want %q", all, err, d.want)
					}
					bad.Memory = bad.Reopen() // because Check has closed it
					again, err := Start(t.Context(), keptProcess, quiet(Options{Log: journal.Opened{Log: bad}, SnapshotAge: time.Hour}))
					if err == nil {
						time.Sleep(time.Minute)
						select {
						case <-again.Done():
							err = again.Err()
						default:
						}
					}
					if d.want == "" {
						if err != nil {
							t.Fatal(err)
						}
						for n := range waiting {
							await(t, again.Ports.out, fmt.Sprint("w", n), "got v")
						}
						stop(t, again)
						return
					}
					if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), d.want) || !strings.Contains(err.Error(), "partition 0") || !strings.Contains(err.Error(), "put back what was lost") {
						t.Errorf("%v, want %q", err, d.want)
					}
					if again != nil {
						stop(t, again)
					}
					want := d.lost[0]
					if stopped {
						want = d.lost[1]
					}
					if lost := salvaged(t, &bad, err, append(keysNamed("k", records), keysNamed("w", waiting)...)); lost != want {
						t.Errorf("a salvage loses %d keys, want %d", lost, want)
					}
				})
			})
		}
	}
}

// historyOf returns the history that a message belongs to.
func historyOf(m *journal.Message) [4]byte { return [4]byte(m.Records[0][1:5]) }

// putRecord returns the record of an entry as app's port would send it.
func putRecord(t *testing.T, app *App[keptPorts], key string) []byte {
	t.Helper()
	side := journal.NewMemory(journal.MemoryOptions{})
	other := start(t, side, keptProcess, Options{SnapshotAge: time.Hour})
	if err := other.Ports.in.Put(t.Context(), key, "v"); err != nil {
		t.Fatal(err)
	}
	r, err := side.Read(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ms, err := r.Next(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := other.core.originOf(0).message(ms[0])
	if err != nil {
		t.Fatal(err)
	}
	stop(t, other)
	return m.records[0]
}

// TestRecordsWentBack resets the records to an earlier moment. Before the flow restarts, others add
// more records than were lost.
func TestRecordsWentBack(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, keptProcess, Options{})
		for n := range 5 {
			if err := app.Ports.in.Put(t.Context(), fmt.Sprint("k", n), "v"); err != nil {
				t.Fatal(err)
			}
		}
		taken := app.core.gateway.partitions[0].takenUpTo()
		if stopped {
			stop(t, app)
		} else {
			log.Crash()
			<-app.Done()
		}
		of := app.core.originOf(0)
		bad := rotten{Memory: log.Reopen(), messages: func(ms []journal.Message) []journal.Message {
			for i := range ms {
				if ms[i].Position == taken { // a later record of a client has replaced the lost one
					ms[i].Records = [][]byte{of.record(nil, 0, putRecord(t, app, "another"))}
				}
			}
			return ms
		}}
		again, err := Start(t.Context(), keptProcess, quiet(Options{Log: journal.Opened{Log: bad}}))
		if err == nil {
			<-again.Done()
			err = again.Err()
		}
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "records") {
			t.Errorf("stopped %v: %v", stopped, err)
		}
	}
}
