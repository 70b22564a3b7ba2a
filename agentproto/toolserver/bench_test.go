package toolserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// BenchmarkCalls has 128 clients that each wait for the result of a call before they make the next
// one, over HTTP, with a server that keeps its calls on disk and with one that does not. To compare
// two versions, build the test of each and run them in turn: the measurement includes the disk,
// whose speed changes from one minute to the next.
//
//	go test -run '^$' -bench Calls -benchtime 4000x ./agentproto/toolserver
func BenchmarkCalls(b *testing.B) {
	for _, kept := range []bool{true, false} {
		b.Run(fmt.Sprint("kept=", kept), func(b *testing.B) { benchmarkCalls(b, kept, 128, 64, 200) })
	}
}

// A callBench is a runtime that waits for the results of calls.
type callBench struct {
	front, back string
	client      *http.Client

	mu      sync.Mutex
	waiting map[string]chan struct{}
}

func benchmarkCalls(b *testing.B, kept bool, clients, threads, size int) {
	opts := toolserver.Options{Name: "bench", PublicURL: "http://127.0.0.1", Logger: slog.New(slog.DiscardHandler)}
	if kept {
		opts.State = b.TempDir()
	}
	server := toolserver.New(opts)
	answer := strings.Repeat("r", size)
	toolserver.Add(server, "echo", "Answers.", func(context.Context, struct {
		Text string `json:"text"`
	}) (string, error) {
		return answer, nil
	})
	x := &callBench{waiting: make(map[string]chan struct{}), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
	front, back := httptest.NewServer(server), httptest.NewServer(http.HandlerFunc(x.callback))
	defer front.Close()
	defer back.Close()
	x.front, x.back = front.URL, back.URL
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	acks, results := make([]time.Duration, b.N), make([]time.Duration, b.N)
	next := make(chan int, b.N)
	for i := range b.N {
		next <- i
	}
	close(next)
	b.ResetTimer()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := range next {
				var err error
				if acks[i], results[i], err = x.call(i, threads, size); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(acks)
	slices.Sort(results)
	for name, at := range map[string]time.Duration{
		"ack-p50-ms": acks[b.N/2], "ack-p99-ms": acks[b.N*99/100], "done-p50-ms": results[b.N/2], "done-p99-ms": results[b.N*99/100],
	} {
		b.ReportMetric(float64(at)/float64(time.Millisecond), name)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := server.Close(ctx); err != nil {
		b.Error(err)
	}
}

// callback receives a result.
func (x *callBench) callback(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	x.mu.Lock()
	done := x.waiting[r.URL.Path]
	delete(x.waiting, r.URL.Path)
	x.mu.Unlock()
	if done != nil {
		close(done)
	}
}

// call makes a call and waits for its result.
func (x *callBench) call(i, threads, size int) (acknowledged, finished time.Duration, err error) {
	path, done := fmt.Sprint("/cb/", i), make(chan struct{})
	x.mu.Lock()
	x.waiting[path] = done
	x.mu.Unlock()
	body, err := json.Marshal(map[string]any{
		"operation": "echo", "id": fmt.Sprint("call-", i), "group_id": fmt.Sprint("thread-", i%threads),
		"arguments": map[string]string{"text": strings.Repeat("a", size)}, "callback_url": x.back + path,
	})
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	resp, err := x.client.Post(x.front+"/invoke", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	acknowledged = time.Since(begin)
	if resp.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("an invocation is answered %s", resp.Status)
	}
	<-done
	return acknowledged, time.Since(begin), nil
}
