package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/webhook"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

// A kill needs a process of its own, so the test runs its binary again.
const (
	urlVar = "MILLRACE_WEBHOOK_URL"
	dirVar = "MILLRACE_WEBHOOK_DIR"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(urlVar); url != "" {
		if err := postNumbers(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// killNumbers is the number of elements.
const killNumbers = 3000

type shop struct{ dataflow.Process }

type numbers struct {
	in  *dataflow.InputPort[int]
	out *dataflow.OutputPort[int]
}

func buildNumbers(f *dataflow.Flow) numbers {
	in, xs := dataflow.Input[int](dataflow.At[shop](f), "numbers")
	return numbers{in, dataflow.Output(xs, "out")}
}

// postNumbers is a child that posts the output of a durable flow and ends when everything was accepted.
func postNumbers(url string) error {
	ctx := context.Background()
	app, err := durable.Start(ctx, buildNumbers, durable.Options{Log: disklog.Dir(os.Getenv(dirVar)), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	drains := connect.Drain(ctx, app, app.Ports.out, webhook.Sink[int]{URL: url, Parallel: 4}, connect.DrainOptions{Flow: "numbers", Output: "out", Most: 50})
	xs := make([]int, killNumbers)
	for i := range xs {
		xs[i] = i
	}
	for from := 0; from < killNumbers; from += 500 {
		if _, err := app.Ports.in.SendBatchNumbered(ctx, uint64(from)+1, xs[from:from+500]); err != nil {
			return errors.Join(err, drains.Err())
		}
	}
	if err := app.Stop(ctx); err != nil { // Drain ends when everything is written
		return err
	}
	<-drains.Done()
	return drains.Err()
}

// TestKilled kills a process that posts again and again, and has a receiver that sometimes refuses. Each element takes effect
// once, under the same key.
func TestKilled(t *testing.T) {
	posted := make(chan struct{}, 1<<20)
	r := startAnswering(t, func(w http.ResponseWriter, req *http.Request, body []byte) bool {
		posted <- struct{}{}
		if rand.IntN(200) == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	dir := t.TempDir()
	for left := 8; ; left-- {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), urlVar+"="+r.URL, dirVar+"="+dir)
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		n := 1 + rand.IntN(killNumbers/8)
		var err error
		for running := true; running; {
			select {
			case <-posted:
				if n--; n == 0 && left > 0 {
					c.Process.Kill() // SIGKILL
				}
			case err = <-ended:
				running = false
			}
		}
		if err != nil && c.ProcessState.Exited() {
			t.Fatalf("the child failed: %v", err)
		} else if err == nil {
			break
		}
	}
	got := r.got()
	slices.Sort(got)
	want := make([]int, killNumbers)
	again := 0
	for i := range want {
		want[i] = i
		again += r.times(fmt.Sprintf("numbers/out/0/%d", i+1)) - 1
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d elements have had an effect, want %d, each once", len(got), killNumbers)
	}
	t.Logf("%d came again", again)
	if again < 0 {
		t.Error("an element did not come under its key")
	}
}
