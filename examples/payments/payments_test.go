package main

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
)

// TestRetries has the bank fail twice before it accepts a payment. The same request within a day
// gets the same receipt, and a request after that is a new payment.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		asked := 0
		ports := build(flow, func(_ context.Context, key string, _ int64) Outcome {
			if asked++; asked < 3 {
				return Outcome{Refused: "closed", Again: true}
			}
			return Outcome{Number: key}
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
		pay("tea-1") // the stored receipt
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

// TestWeek makes a thousand payments an hour for a week, and checks that memory does not grow
// after the second day.
func TestWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		ports := build(flow, func(_ context.Context, key string, _ int64) Outcome { return Outcome{Number: key} })
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
