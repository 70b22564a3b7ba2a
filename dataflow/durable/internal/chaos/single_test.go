package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// A singleConfig configures a process with an embedded server.
type singleConfig struct {
	Dir     string
	Seed    uint64
	Pending []singleRequest // requests of earlier processes without a reported result
	Next    uint64
}

type singleRequest struct {
	Key   string
	Votes []vote
}

// A singleEvent is one line of JSON that a process with an embedded server prints.
type singleEvent struct {
	Restored time.Duration  `json:",omitzero"` // the app runs
	Begun    *singleRequest `json:",omitempty"`
	Sent     uint64         `json:",omitempty"` // a vote is about to be sent
	Acked    uint64         `json:",omitempty"` // a vote was acknowledged
	Done     string         `json:",omitempty"` // a request has its result
	Result   tally          `json:",omitzero"`
}

// runSingle makes requests until it is killed. It starts with the pending ones.
func runSingle(config string) error {
	var c singleConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin) // returns when the parent exits, even if the parent is killed
		cancel()
	}()
	o := workerConfig{Partitions: 4}.options()
	o.Log = natslog.Embedded(c.Dir)
	app, err := durable.Start(ctx, build, o)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	lines := json.NewEncoder(os.Stdout)
	say := func(e singleEvent) {
		mu.Lock()
		defer mu.Unlock()
		lines.Encode(e)
	}
	say(singleEvent{Restored: app.Metrics().LastRestore + 1})
	rng := rand.New(rand.NewPCG(c.Seed, 0))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				r, fresh := singleRequest{}, len(c.Pending) == 0
				if !fresh {
					r, c.Pending = c.Pending[0], c.Pending[1:]
				} else {
					r.Key = fmt.Sprint("r-", c.Next)
					for i, voter := range rng.Perm(voters) {
						r.Votes = append(r.Votes, vote{c.Next*voters + uint64(i), voter, rng.IntN(1000)})
					}
					c.Next++
				}
				mu.Unlock()
				if fresh {
					say(singleEvent{Begun: &r})
				}
				callSingle(ctx, app.Ports, r, say)
			}
		})
	}
	<-app.Done()
	wg.Wait()
	return app.Err()
}

func callSingle(ctx context.Context, p ports, r singleRequest, say func(singleEvent)) {
	var wg sync.WaitGroup
	for _, v := range r.Votes {
		wg.Go(func() {
			say(singleEvent{Sent: v.ID})
			if err := p.votes.Send(ctx, r.Key, v); err == nil {
				say(singleEvent{Acked: v.ID})
			}
		})
	}
	wg.Wait()
	if result, err := p.released.Await(ctx, r.Key); err == nil {
		say(singleEvent{Done: r.Key, Result: result})
	}
}

// A single is what the test knows about the requests of all processes so far.
type single struct {
	requests []*request
	byKey    map[string]*request
	byVote   map[uint64]*request
	next     uint64
	restores durations
}

// TestSingle kills a process with an embedded server again and again, at random moments.
func TestSingle(t *testing.T) {
	t.Logf("rerun: -seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 1))
	dir := t.TempDir()
	s := &single{byKey: make(map[string]*request), byVote: make(map[uint64]*request), next: 1}
	began := time.Now()
	for round := range *kills {
		until := 1 + rng.IntN(3000)
		s.round(t, dir, uint64(round), func(events int) bool { return events == until })
	}
	// The last process is killed when none of the earlier requests is pending.
	before := s.pending()
	s.round(t, dir, uint64(*kills), func(int) bool {
		for len(before) > 0 && s.byKey[before[0].Key].resolved {
			before = before[1:]
		}
		return len(before) == 0
	})
	took := time.Since(began)
	var told []*request
	for _, r := range s.requests {
		if r.resolved {
			told = append(told, r)
		}
	}
	all := readHistories(t, natslog.Embedded(dir), journal.OpenOptions{Logger: logTo(t.Output())})
	truth := verify(t, all, told)
	checkUntold(t, s, truth)
	t.Logf("%d kills in %v, %d requests begun, %d records: %.0f events/s with all restarts; restore %v",
		*kills+1, took.Round(time.Millisecond), len(s.requests), truth.records, float64(truth.records)/took.Seconds(), &s.restores)
}

// checkUntold checks that acknowledged votes are stored even if the request has no
// reported result.
func checkUntold(t *testing.T, s *single, truth *truth) {
	t.Helper()
	var lost report
	for _, r := range s.requests {
		for i, v := range r.votes {
			if r.acked[i] && truth.votes[v.ID] == 0 {
				lost.add("vote %d of %s", v.ID, r.key)
			}
		}
	}
	lost.end(t, "acknowledged votes lost")
}

func (s *single) pending() (all []singleRequest) {
	for _, r := range s.requests {
		if !r.resolved {
			all = append(all, singleRequest{r.key, r.votes})
		}
	}
	return all
}

// round runs one process, calls enough after each event and kills the process when enough
// returns true.
func (s *single) round(t *testing.T, dir string, seed uint64, enough func(events int) bool) {
	t.Helper()
	config, err := json.Marshal(singleConfig{Dir: dir, Seed: seed, Pending: s.pending(), Next: s.next})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), singleKey+"="+string(config))
	in, _ := cmd.StdinPipe()
	defer in.Close()
	out, _ := cmd.StdoutPipe()
	said := &tail{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	watchdog := time.AfterFunc(within, func() { cmd.Process.Kill() })
	defer watchdog.Stop()
	events, killed := 0, false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e singleEvent
		if err := json.NewDecoder(strings.NewReader(lines.Text())).Decode(&e); err != nil {
			break // the kill cut the line
		}
		s.note(e)
		if events++; !killed && enough(events) {
			cmd.Process.Kill() // then read what it printed before the kill
			killed = true
		}
	}
	cmd.Wait()
	if !killed {
		t.Fatalf("the process ended by itself, or did nothing for %v, after %d events: %s", within, events, said)
	}
}

func (s *single) note(e singleEvent) {
	switch {
	case e.Restored > 0:
		s.restores.add(e.Restored)
	case e.Begun != nil:
		r := &request{key: e.Begun.Key, votes: e.Begun.Votes, attempts: make([]int, voters), acked: make([]bool, voters)}
		s.requests = append(s.requests, r)
		s.byKey[r.key] = r
		for _, v := range r.votes {
			s.byVote[v.ID] = r
			s.next = max(s.next, v.ID/voters+1)
		}
	case e.Sent > 0:
		s.byVote[e.Sent].attempts[e.Sent%voters]++
	case e.Acked > 0:
		s.byVote[e.Acked].acked[e.Acked%voters] = true
	case e.Done != "":
		r := s.byKey[e.Done]
		r.result, r.resolved = e.Result, true
	}
}
