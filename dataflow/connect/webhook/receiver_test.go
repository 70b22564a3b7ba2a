package webhook_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/webhook"
)

var lane = connect.Lane{Flow: "shop", Output: "orders", Partition: 3}

// A receiver processes each key once.
type receiver struct {
	*httptest.Server
	// answer is called first. It returns true if it has answered.
	answer func(w http.ResponseWriter, r *http.Request, body []byte) bool

	mu      sync.Mutex
	effects []int // the elements, each key once
	keys    map[string]int
	posts   []time.Time
}

func startReceiver(t testing.TB) *receiver { return startAnswering(t, nil) }

func startAnswering(t testing.TB, answer func(http.ResponseWriter, *http.Request, []byte) bool) *receiver {
	r := &receiver{answer: answer, keys: map[string]int{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender has gone
	}
	r.mu.Lock()
	r.posts = append(r.posts, time.Now())
	r.mu.Unlock()
	if r.answer != nil && r.answer(w, req, body) {
		return
	}
	var x int
	key := req.Header.Get("Idempotency-Key")
	if err := json.Unmarshal(body, &x); err != nil || req.Method != http.MethodPost || key == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys[key]++; r.keys[key] == 1 {
		r.effects = append(r.effects, x)
	}
}

// got returns the elements that took effect.
func (r *receiver) got() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.effects)
}

func (r *receiver) times(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[key]
}

func (r *receiver) posted() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.posts)
}

func open(t testing.TB, s webhook.Sink[int]) connect.Writer[int, connect.Idempotent] {
	t.Helper()
	w, last, err := s.Open(t.Context(), lane)
	if err != nil || last != 0 {
		t.Fatalf("opened, the lane has elements up to %d (%v)", last, err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func equal(t testing.TB, what string, got, want []int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
