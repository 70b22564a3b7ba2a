package membership

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// processVariable is the environment variable with the order of a member process. If it is
// set, the test program is that process.
const processVariable = "MILLRACE_TEST_MEMBER"

type order struct {
	URL   string
	ID    string
	Lease time.Duration
}

// stateSubject is the prefix of the subjects for requests to member processes.
const stateSubject = "test.state."

type state struct {
	Lapses uint64 // counted before Owned was read
	Owned  []int
}

func TestMain(m *testing.M) {
	if text := os.Getenv(processVariable); text != "" {
		if err := obey(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if text := os.Getenv(serverVariable); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// obey joins, prints the owned partitions as a line of JSON whenever they change, and answers
// requests with its state.
func obey(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	nc, err := nats.Connect(o.URL, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		return err
	}
	ctx := context.Background()
	m, err := Join(ctx, nc, Options{Name: "app", Partitions: 32, ID: o.ID, Lease: o.Lease})
	if err != nil {
		return err
	}
	if _, err := nc.Subscribe(stateSubject+o.ID, func(msg *nats.Msg) {
		data, err := json.Marshal(state{Lapses: m.Counters().Lapses, Owned: m.Owned()})
		if err == nil {
			_ = msg.Respond(data) // without it the requester fails
		}
	}); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for {
		a, err := m.Next(ctx)
		if err != nil {
			return err
		}
		if err := out.Encode(a.Owned); err != nil {
			return err
		}
	}
}

// A process is a member in its own process.
type process struct {
	cmd *exec.Cmd
	log *log
}

func startProcess(t testing.TB, url, id string, lease time.Duration) *process {
	t.Helper()
	text, err := json.Marshal(order{URL: url, ID: id, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(exe), log: &log{more: make(chan struct{})}}
	p.cmd.Env = append(os.Environ(), processVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var read sync.WaitGroup
	read.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			e := entry{at: time.Now()}
			e.err = json.Unmarshal(lines.Bytes(), &e.owned)
			p.log.add(e)
		}
	})
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails if the test killed it before
		read.Wait()
		_ = p.cmd.Wait() // reports that it was killed
	})
	return p
}

func (p *process) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// state asks a process for its state. Without an answer it returns false.
func (p *process) state(t testing.TB, nc *nats.Conn, id string) (s state, ok bool) {
	msg, err := nc.RequestWithContext(soon(t), stateSubject+id, nil)
	return s, err == nil && json.Unmarshal(msg.Data, &s) == nil
}

// shares reports whether a shares the partitions with b and would suspect b if it fell
// silent.
func shares(a *Member, b string) func() bool {
	return func() bool { return len(a.Members()) == 2 && len(a.Owned()) < 32 && a.trusts(b)() }
}

// TestKill kills a process with SIGKILL. The lease is so long that only the probe can detect
// it.
func TestKill(t *testing.T) {
	s := startServer(t)
	a, _ := join(t, s.ClientURL(), Options{ID: "a", Lease: time.Minute})
	b := startProcess(t, s.ClientURL(), "b", time.Minute)
	until(t, "b to have its part", shares(a, "b"))
	log := follow(a)
	_, next := log.wait(t, 0, "a part", func(e entry) bool { return len(e.owned) < 32 })
	killed := time.Now()
	b.signal(t, syscall.SIGKILL)
	e, _ := log.wait(t, next, "everything", owns(32))
	t.Logf("taken over after %v", e.at.Sub(killed))
	c := startProcess(t, s.ClientURL(), "b", time.Minute)
	first, _ := c.log.wait(t, 0, "the part of the next process", func(e entry) bool { return len(e.owned) > 0 })
	until(t, "the same part for a", func() bool { return len(a.Owned())+len(first.owned) == 32 })
}

// TestZombie stops a process for longer than its lease. When it continues, others own its
// partitions. Its lease lapses, so it owns nothing, and then it gets the same partitions back.
// Next may skip that it owned nothing.
func TestZombie(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	a, nc := join(t, s.ClientURL(), Options{ID: "a", Lease: time.Second})
	b := startProcess(t, s.ClientURL(), "b", time.Second)
	until(t, "b to have its part", shares(a, "b"))
	part, _ := b.log.wait(t, 0, "a part", func(e entry) bool { return len(e.owned) > 0 })
	log := follow(a)
	_, mine := log.wait(t, 0, "a part", func(e entry) bool { return len(e.owned) < 32 })
	b.signal(t, syscall.SIGSTOP)
	_, mine = log.wait(t, mine, "everything", owns(32))
	b.signal(t, syscall.SIGCONT)
	var last state
	defer func() {
		if t.Failed() {
			t.Logf("b had %v, and at last %+v", part.owned, last)
		}
	}()
	until(t, "b to have its part after a lapse", func() bool {
		s, ok := b.state(t, nc, "b")
		last = s
		return ok && s.Lapses > 0 && slices.Equal(s.Owned, part.owned)
	})
	log.wait(t, mine, "the rest", owns(32-len(part.owned)))
	if n := a.Counters().Suspicions; n != 0 {
		t.Errorf("%d suspicions of a process whose connection was there", n)
	}
}

// BenchmarkTakeover measures how long after SIGKILL another member owns everything, with the
// probe and with the lease alone. Each step starts a process and kills it.
//
//	go test ./dataflow/durable/internal/membership -run '^$' -bench Takeover -benchtime 20x
func BenchmarkTakeover(b *testing.B) {
	for _, by := range []struct {
		name  string
		probe time.Duration
	}{{"probe=50ms", 0}, {"lease=3s", -1}} {
		b.Run("by="+by.name, func(b *testing.B) {
			s := startServer(b)
			a, _ := join(b, s.ClientURL(), Options{ID: "a", Probe: by.probe})
			log := follow(a)
			var took []time.Duration
			for b.Loop() {
				id := fmt.Sprint("b", len(took))
				p := startProcess(b, s.ClientURL(), id, 0)
				until(b, "its part", func() bool {
					return len(a.Members()) == 2 && len(a.Owned()) < 32 && (by.probe < 0 || a.trusts(id)())
				})
				next := log.len()
				killed := time.Now()
				p.signal(b, syscall.SIGKILL)
				e, _ := log.wait(b, next, "everything", owns(32))
				took = append(took, e.at.Sub(killed))
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
			b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
			b.ReportMetric(took[len(took)-1].Seconds()*1e3, "max-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
