package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
)

// TestRun asks a bank over HTTP for payments, some of them twice, one under a key that is
// taken, and one that it refuses.
func TestRun(t *testing.T) {
	var mu sync.Mutex
	charges := make(map[string]int)
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		charges[key]++
		if strings.HasPrefix(key, "no") {
			http.Error(w, "not covered", http.StatusPaymentRequired)
			return
		}
		fmt.Fprintf(w, `{"number":"of %s"}`, key)
	}))
	defer bank.Close()
	var out strings.Builder
	if err := run(t.Context(), bank.URL, strings.NewReader(`{"key":"tea","cents":250}
{"key":"rice","cents":900}
{"key":"tea","cents":250}
{"key":"no","cents":1}
{"key":"tea","cents":7}
`), &out); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(got)
	// Numbers of lives are those of their order of appearance.
	want := []string{
		`{"key":"no","receipt":{"refused":"402 Payment Required","tries":1}}`,
		`{"key":"rice","receipt":{"number":"of rice-2","tries":1}}`,
		`{"key":"tea","misused":7}`,
		`{"key":"tea","receipt":{"number":"of tea-1","tries":1}}`,
		`{"key":"tea","receipt":{"number":"of tea-1","tries":1}}`,
		`{"key":"tea","receipt":{"number":"of tea-1","tries":1}}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("printed\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(charges) != 3 || charges["tea-1"] != 1 {
		t.Errorf("the bank was asked %v", charges)
	}
}

// TestRetries has the bank fail twice, asks again meanwhile and for a day, and after it.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		asked := 0
		ports := build(flow, func(_ context.Context, c Charge) Outcome {
			if asked++; asked < 3 {
				return Outcome{Refused: "closed", Again: true}
			}
			return Outcome{Number: c.Key}
		})
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		pay := func(want string) {
			t.Helper()
			if err := ports.Requests.Send(t.Context(), "tea", 250); err != nil {
				t.Fatal(err)
			}
			if r, err := ports.Receipts.Await(t.Context(), "tea"); r.Number != want || err != nil {
				t.Errorf("after %v the receipt is %+v, %v, want number %s", time.Since(began), r, err, want)
			}
		}
		pay("tea-1")
		if took := time.Since(began); took != 6*time.Second || asked != 3 {
			t.Errorf("paid after %v and %d attempts", took, asked)
		}
		<-time.After(23 * time.Hour)
		pay("tea-1") // from memory
		<-time.After(2 * time.Hour)
		synctest.Wait()
		pay("tea-2") // a new payment
		if asked != 4 || ports.Receipts.Len() != 1 {
			t.Errorf("the bank was asked %d times, %d receipts are kept", asked, ports.Receipts.Len())
		}
		ports.Requests.Close()
		if err := app.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestWeek makes a thousand payments an hour for a week and wants what is kept not to grow after
// the second day.
func TestWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		ports := build(flow, func(_ context.Context, c Charge) Outcome { return Outcome{Number: c.Key} })
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		heap := func() int {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		second := 0
		for hour := range 7 * 24 {
			for i := range 1000 {
				if err := ports.Requests.Send(t.Context(), fmt.Sprintf("payment %d of hour %d", i, hour), 100); err != nil {
					t.Fatal(err)
				}
			}
			<-time.After(time.Hour)
			synctest.Wait()
			if n := ports.Receipts.Len(); n > 24_000 {
				t.Fatalf("%d receipts are kept after %d hours", n, hour+1)
			}
			if hour == 47 {
				second = heap()
			}
		}
		week := heap()
		t.Logf("%d KiB after two days, %d KiB after a week, %d receipts", second>>10, week>>10, ports.Receipts.Len())
		if week > second+second/10+1<<20 {
			t.Errorf("%d bytes are in use after a week, %d after two days", week, second)
		}
		ports.Requests.Close()
		if err := app.Wait(); err != nil {
			t.Error(err)
		}
	})
}
