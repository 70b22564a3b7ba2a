package host

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/agentproto/host/internal/quota"
)

var (
	pendingCalls = flag.Int("pending", 1000, "how many calls are pending in TestL02Fairness; from 10,000 on its p99 is judged strictly")
	pendingIn    = flag.Int("threads", 100, "in how many threads they are, each a session of its own")
	measured     = flag.Int("measured", 400, "how many calls are measured")
)

// A neighbour is a tool server on a real socket. It acknowledges calls and leaves them pending.
// While hung is set it answers nothing.
type neighbour struct {
	*httptest.Server
	hung    atomic.Bool
	release chan struct{}
	invoked atomic.Int64
}

func newNeighbour(t *testing.T, tool string) *neighbour {
	n := &neighbour{release: make(chan struct{})}
	n.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/invoke" {
			n.invoked.Add(1)
		}
		if n.hung.Load() {
			select {
			case <-n.release:
			case <-r.Context().Done():
			}
			return
		}
		if r.URL.Path == discovery.Path {
			fmt.Fprintf(rw, `{"name":"n","endpoint":"%s/invoke","tools":[{"name":%q,"description":"d","inputSchema":{}}]}`, n.URL, tool)
		}
	}))
	t.Cleanup(n.Close)
	t.Cleanup(func() { close(n.release) })
	return n
}

// TestL02Fairness checks that thousands of pending calls, and a tool server that answers nothing,
// do not slow down the calls of another server (L02). The 99th percentile of these is less than
// twice that of an otherwise idle runtime.
//
//	go test ./agentproto/host -run TestL02Fairness -v -pending 10000 -threads 1000 -measured 10000
func TestL02Fairness(t *testing.T) {
	echo, late, hung := echoServer(t, "echo"), newNeighbour(t, "late"), newNeighbour(t, "hang")
	rt, err := Start(t.Context(), Options{
		Toolsets: []string{echo.URL, late.URL, hung.URL}, Surface: &user{}, Logger: slog.New(slog.DiscardHandler),
		Timeouts: Timeouts{Discovery: time.Second, Ack: time.Minute, Dispatch: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stopAtOnce(t, rt)
	defer echo.posts.Wait()
	measure(t, rt, *measured/10) // warm up connections and code
	quiet := measure(t, rt, *measured)

	hung.hung.Store(true)
	start := time.Now()
	onLate := fill(t, rt)
	deadline := time.After(time.Minute)
	for late.invoked.Load() < onLate || hung.invoked.Load() == 0 {
		select {
		case <-deadline:
			t.Fatalf("%d of %d calls were posted to the server that acknowledges, %d to the one that hangs", late.invoked.Load(), onLate, hung.invoked.Load())
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Logf("%d calls pending in %d threads after %v; the hung server holds %d", *pendingCalls, *pendingIn, time.Since(start), hung.invoked.Load())
	loaded := measure(t, rt, *measured)
	t.Logf("p50 %v quiet, %v loaded; p99 %v quiet, %v loaded (%.2f times)", quiet[len(quiet)/2], loaded[len(loaded)/2],
		p99(quiet), p99(loaded), float64(p99(loaded))/float64(p99(quiet)))
	limit := 2 * p99(quiet)
	if *pendingCalls < 10_000 { // too few calls, perhaps on a busy machine: only calls that wait for the others fail
		limit = max(limit, stall)
	}
	if p99(loaded) > limit {
		t.Errorf("p99 is %v, want less than %v", p99(loaded), limit)
	}
	if st := rt.Stats(); st.Failures != 0 {
		t.Errorf("stats %+v, want no failures", st.Counts)
	}
}

// fill makes the pending calls, one in ten at the server that hangs. It returns the number at the
// other server.
func fill(t *testing.T, rt *Runtime) (onLate int64) {
	var wg sync.WaitGroup
	numbers := make(chan int)
	for range 64 {
		wg.Go(func() {
			for i := range numbers {
				operation := "late"
				if i%10 == 0 {
					operation = "hang"
				}
				thread := fmt.Sprint("pending", i%*pendingIn)
				if _, err := rt.Call(t.Context(), Request{GroupID: thread, ID: fmt.Sprint(i), Operation: operation}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range *pendingCalls {
		if numbers <- i; i%10 != 0 {
			onLate++
		}
	}
	close(numbers)
	wg.Wait()
	return onLate
}

// measure makes calls of the good server, a few at once, and returns their durations, sorted.
func measure(t *testing.T, rt *Runtime, n int) []time.Duration {
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for range n / 4 {
				start := time.Now()
				key, err := rt.Call(t.Context(), Request{GroupID: fmt.Sprint("measured", worker), Operation: "echo"})
				var r *agentproto.Resolution
				if err == nil {
					r, err = rt.Await(t.Context(), key)
				}
				if err != nil || r.Cause != agentproto.ByResult {
					t.Errorf("%+v, %v", r, err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(start))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took
}

func p99(sorted []time.Duration) time.Duration { return sorted[len(sorted)*99/100] }

// stall is a time that a call takes only if it waits for others, and not because a machine is slow.
const stall = 10 * time.Second

var flood = flag.Int("flood", 2000, "how many callbacks a second TestS11FloodOfOneCall posts, if it can; from 10,000 on its p99 is judged strictly")

// TestS11FloodOfOneCall posts thousands of messages a second to one callback URL (threat 5). These
// are deferred, and the calls of other threads continue.
//
//	go test ./agentproto/host -run TestS11FloodOfOneCall -v -flood 50000 -measured 10000
func TestS11FloodOfOneCall(t *testing.T) {
	echo, late := echoServer(t, "echo"), lateServer(t)
	body := view("flooding", "v", `{"a":1}`)
	cost := int64(quota.Overhead + len(body))
	rt, err := Start(t.Context(), Options{
		Toolsets: []string{echo.URL, late.URL}, Surface: &user{}, Logger: slog.New(slog.DiscardHandler),
		Bounds: Bounds{Rates: Rates{Call: Rate{Second: 10 * cost, Burst: 20 * cost}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stopAtOnce(t, rt)
	defer echo.posts.Wait()
	if _, err := rt.Call(t.Context(), Request{GroupID: "flooding", Operation: "late"}); err != nil {
		t.Fatal(err)
	}
	inv := <-late.invocations
	measure(t, rt, *measured/10)
	quiet := measure(t, rt, *measured)

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	defer client.CloseIdleConnections()
	var taken, putOff, other atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			tick := time.NewTicker(8 * time.Second / time.Duration(*flood))
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				resp, err := client.Post(inv.CallbackURL, "application/json", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				switch resp.StatusCode {
				case http.StatusOK:
					taken.Add(1)
				case http.StatusServiceUnavailable:
					putOff.Add(1)
				default:
					other.Add(1)
				}
			}
		})
	}
	start := time.Now()
	loaded := measure(t, rt, *measured)
	d := time.Since(start)
	close(stop)
	wg.Wait()
	t.Logf("%.0f callbacks a second for %v: %d taken, %d put off; p50 %v quiet, %v flooded; p99 %v quiet, %v flooded (%.2f times)",
		float64(taken.Load()+putOff.Load())/d.Seconds(), d, taken.Load(), putOff.Load(), quiet[len(quiet)/2], loaded[len(loaded)/2],
		p99(quiet), p99(loaded), float64(p99(loaded))/float64(p99(quiet)))
	if most := 20 + 10*int64(d.Seconds()+1); taken.Load() > most || other.Load() != 0 {
		t.Errorf("%d callbacks were taken, want at most %d; %d answered otherwise", taken.Load(), most, other.Load())
	}
	limit := 2 * p99(quiet)
	if *flood < 10_000 {
		limit = max(limit, stall)
	}
	if p99(loaded) > limit {
		t.Errorf("p99 is %v, want less than %v", p99(loaded), limit)
	}
}
