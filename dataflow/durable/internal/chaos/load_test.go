package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// voters is the number of votes on each request. The first quorum of them to arrive
// decide.
const voters = quorum + 1

// A request is a request as its caller knows it.
type request struct {
	key      string
	votes    []vote
	attempts []int  // number of times that each vote was sent
	acked    []bool // whether each vote was acknowledged as durable
	began    time.Time
	took     time.Duration
	result   tally
	resolved bool

	claims  []uint64 // claims that were put, if any
	verdict []error
	owner   uint64 // the owner that every Await returned
}

// A load makes requests with a fixed number of concurrent callers.
type load struct {
	calling
	ports ports
	name  string // prefix of the keys

	mu       sync.Mutex
	requests []*request
}

func startLoad(p ports, name string, callers int) *load {
	l := &load{ports: p, name: name}
	l.begin(callers, func(rng *rand.Rand) {
		r := l.request(l.number.Add(1), rng)
		l.mu.Lock()
		l.requests = append(l.requests, r)
		l.mu.Unlock()
		l.call(r)
	})
	return l
}

// A voting is the voting flow with its callers.
type voting struct {
	app      *durable.App[ports]
	load     *load
	requests []*request
}

func startVoting(t testing.TB, o durable.Options) subject {
	t.Helper()
	return &voting{app: start(t, build, o)}
}

func (v *voting) call()                          { v.load = startLoad(v.app.Ports, "r", callers) }
func (v *voting) begun() uint64                  { return v.load.number.Load() }
func (v *voting) rest(t testing.TB)              { v.requests = v.load.finish(t) }
func (v *voting) stop(ctx context.Context) error { return v.app.Stop(ctx) }
func (v *voting) metrics() durable.Metrics       { return v.app.Metrics() }

func (v *voting) check(w *world, took time.Duration) {
	w.t.Helper()
	all := readHistories(w.t, onServers(w.servers.URLs("")), journal.OpenOptions{Name: appName, Logger: logTo(w.t.Output())})
	truth := verify(w.t, all, v.requests)
	var latency durations
	for _, r := range v.requests {
		latency.add(r.took)
	}
	w.t.Logf("%d requests (%d records) in %v: %.0f calls/s, %.0f events/s; %d sends repeated; calls %v; takeover %v",
		len(v.requests), truth.records, took.Round(time.Millisecond), float64(len(v.requests))/took.Seconds(),
		float64(truth.records)/took.Seconds(), v.load.failures.Load(), &latency, w.takeovers(all))
}

// finish stops making new requests and waits until all have results.
func (l *load) finish(t testing.TB) []*request {
	t.Helper()
	l.halt()
	l.cancel()
	return l.requests
}

func (l *load) request(n uint64, rng *rand.Rand) *request {
	r := &request{key: fmt.Sprint(l.name, "-", n), attempts: make([]int, voters), acked: make([]bool, voters)}
	for i, voter := range rng.Perm(voters) {
		r.votes = append(r.votes, vote{ID: n*voters + uint64(i), Voter: voter, Value: rng.IntN(1000)})
	}
	if n%4 == 0 {
		r.claims = []uint64{2 * n, 2*n + 1}
		r.verdict = make([]error, 2)
	}
	return r
}

// call sends all votes of a request at once and waits for its result.
func (l *load) call(r *request) {
	var wg sync.WaitGroup
	r.began = time.Now()
	for i, v := range r.votes {
		wg.Go(func() { l.vote(r, i, v) })
	}
	for i, c := range r.claims {
		wg.Go(func() { r.verdict[i] = l.claim(r.key, c) })
	}
	result, err := l.ports.released.Await(l.ctx, r.key)
	r.took = time.Since(r.began)
	r.result, r.resolved = result, err == nil
	if len(r.claims) > 0 && err == nil {
		r.owner, err = l.ports.claimed.Await(l.ctx, r.key)
		r.resolved = err == nil
	}
	wg.Wait()
}

// errDoubtful is the verdict on a claim that was put again: the duplicate that the second
// attempt met may be the first attempt.
var errDoubtful = errors.New("put again")

func (l *load) claim(key string, c uint64) error {
	for try := 0; l.ctx.Err() == nil; try++ {
		err := l.ports.claims.Put(l.ctx, key, c)
		switch {
		case err == nil, errors.Is(err, dataflow.ErrDuplicateKey) && try == 0:
			return err
		case errors.Is(err, dataflow.ErrDuplicateKey):
			return errDoubtful
		}
		l.failures.Add(1)
		pass(l.ctx, 50*time.Millisecond)
	}
	return errDoubtful
}

// vote sends one vote until it is acknowledged, so the vote may arrive more than once.
func (l *load) vote(r *request, i int, v vote) {
	for l.ctx.Err() == nil {
		r.attempts[i]++
		if err := l.ports.votes.Send(l.ctx, r.key, v); err == nil {
			r.acked[i] = true
			return
		}
		l.failures.Add(1)
		pass(l.ctx, 50*time.Millisecond)
	}
}

// checkCallers compares the results that callers received with the oracle, and the
// acknowledged votes with the stored ones.
func checkCallers(t testing.TB, requests []*request, truth *truth) (answered int) {
	t.Helper()
	var missing, wrong, lost, doubled, claims report
	for _, r := range requests {
		want, released := truth.released[r.key]
		switch {
		case !r.resolved:
			missing.add("%s was not answered; the log says %v %v", r.key, released, want.tally)
			continue
		case !released || !want.tally.equal(r.result):
			wrong.add("%s was answered with %v, the log says %v %v", r.key, r.result, released, want.tally)
		}
		answered++
		for i, v := range r.votes {
			n := truth.votes[v.ID]
			if r.acked[i] && n == 0 {
				lost.add("vote %d of %s was acknowledged and is not there", v.ID, r.key)
			}
			if n > r.attempts[i] {
				doubled.add("vote %d of %s is there %d times and was sent %d times", v.ID, r.key, n, r.attempts[i])
			}
		}
		checkClaims(r, truth, &claims)
	}
	missing.end(t, "requests missing")
	wrong.end(t, "requests wrong")
	lost.end(t, "acknowledged votes lost")
	doubled.end(t, "votes doubled")
	claims.end(t, "claims wrong")
	return answered
}

// checkClaims checks that the accepted claim is the first one in the log. A claim that
// failed for another reason may be in the log or not.
func checkClaims(r *request, truth *truth, wrong *report) {
	if len(r.claims) == 0 {
		return
	}
	first, there := truth.claimed[r.key]
	if !there || r.owner != first.claim {
		wrong.add("%s belongs to %d, the log says %v %d", r.key, r.owner, there, first.claim)
	}
	for i, c := range r.claims {
		switch err := r.verdict[i]; {
		case err == nil && c != first.claim, errors.Is(err, dataflow.ErrDuplicateKey) && c == first.claim:
			wrong.add("claim %d of %s: %v, the first of the log is %d", c, r.key, err, first.claim)
		}
	}
}

// A report counts the failures and shows the first few.
type report struct {
	n     int
	first []string
}

func (r *report) add(format string, v ...any) {
	if r.n++; len(r.first) < 5 {
		r.first = append(r.first, fmt.Sprintf(format, v...))
	}
}

func (r *report) end(t testing.TB, what string) {
	t.Helper()
	if r.n > 0 {
		t.Errorf("%d %s:\n%s", r.n, what, strings.Join(r.first, "\n"))
	}
}
