package host

import (
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

var floodFor = flag.Duration("floodfor", 2*time.Second, "how long TestS11FloodOfEvents posts events")

// TestS11FloodOfEvents posts large events over four connections as fast as possible (threat 5). The disk holds no
// more than the rates allow, and other sessions open as usual. Only a long run checks how soon they open, because the
// machine may be busy.
//
//	go test ./agentproto/host -run TestS11FloodOfEvents -v -floodfor 40s
func TestS11FloodOfEvents(t *testing.T) {
	echo, late := echoServer(t, "echo"), lateServer(t)
	sealer, err := SealerOf([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rt, err := Start(t.Context(), Options{
		Toolsets: []string{echo.URL, late.URL}, Surface: &user{}, Logger: slog.New(slog.DiscardHandler), Sealer: sealer,
		Model: conversation.ModelFunc(floodedModel), State: &durable.Options{Log: disklog.Dir(dir), Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stopAtOnce(t, rt)
	defer echo.posts.Wait()
	th, err := rt.OpenSession(t.Context(), SessionRequest{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := th.Say(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	url := (<-late.invocations).CallbackURL
	if status := late.post(t, url, subscriptionBody(key("a"))); status != 200 {
		t.Fatalf("status %d", status)
	}

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	defer client.CloseIdleConnections()
	event := eventBody(key("a"), strings.Repeat("x", 200<<10), true, false)
	start := time.Now()
	var posted, refused atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for time.Since(start) < *floodFor {
				resp, err := client.Post(url, "application/json", strings.NewReader(event))
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if posted.Add(1); resp.StatusCode != 200 {
					refused.Add(1)
				}
			}
		})
	}
	var opened []time.Duration
	for n := 0; time.Since(start) < *floodFor; n++ {
		began := time.Now()
		if _, err := rt.OpenSession(t.Context(), SessionRequest{ID: fmt.Sprint("other", n)}); err != nil {
			t.Fatal(err)
		}
		opened = append(opened, time.Since(began))
		<-time.After(10 * time.Millisecond)
	}
	wg.Wait()
	took := time.Since(start)
	slices.Sort(opened)
	median, slowest := opened[len(opened)/2], opened[len(opened)-1]
	var disk int64
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				disk += info.Size()
			}
		}
		return nil
	})
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	st := rt.Stats()
	t.Logf("%d events in %v, %d left out, %d answered otherwise than 200; %d sessions opened, half of them within %v, the slowest in %v; %.1f MB on disk, %.0f MB of memory",
		posted.Load(), *floodFor, st.LeftOut, refused.Load(), len(opened), median, slowest, float64(disk)/1e6, float64(memory.Sys)/1e6)
	if refused.Load() != 0 || int64(st.LeftOut) < posted.Load()-12-int64(took.Seconds()) {
		t.Errorf("%d events, %d left out, %d answered otherwise than 200", posted.Load(), st.LeftOut, refused.Load())
	}
	if *floodFor >= 40*time.Second && median > 100*time.Millisecond {
		t.Errorf("a session took %v to open", median)
	}
	if disk > 40<<20 {
		t.Errorf("%d bytes on disk", disk)
	}
}

// floodedModel makes one call and then only acknowledges events.
func floodedModel(_ context.Context, r *conversation.Request) (*conversation.Reply, error) {
	if len(r.Messages) == 1 {
		return &conversation.Reply{Calls: []conversation.Call{{ID: "a", Name: "late"}}}, nil
	}
	return &conversation.Reply{Text: "seen"}, nil
}
