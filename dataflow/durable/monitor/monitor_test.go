package monitor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/monitor"
	"github.com/millrace/millrace/keyedsingleton"
)

type yard struct{ dataflow.Cluster }

// orders outputs the value of each order. It panics on 13.
func orders(f *dataflow.Flow) *dataflow.EntryInputPort[int, int] {
	put, in := keyedsingleton.Input[int, int](dataflow.At[yard](f), "orders")
	keyedsingleton.Output(keyedsingleton.Map(in, func(x int) int {
		if x == 13 {
			panic("unlucky")
		}
		return x
	}), "kept")
	return put
}

// get returns the status and the body of a response.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// scraped holds the values of metrics by name and labels.
type scraped map[string]float64

// scrape reads the metrics of a flow through a registry that checks them.
func scrape(t *testing.T, flow monitor.Flow) scraped {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(monitor.Collector(flow))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(scraped)
	for _, f := range families {
		name := f.GetName()
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
		for _, m := range f.Metric {
			at := name
			for _, label := range []string{"partition", "location", "state"} {
				for _, l := range m.Label {
					if l.GetName() == label {
						at += " " + l.GetValue()
					}
				}
			}
			switch {
			case m.Gauge != nil:
				all[at] = m.Gauge.GetValue()
			case m.Counter != nil:
				all[at] = m.Counter.GetValue()
			case m.Histogram != nil:
				h := m.Histogram
				all[at] = float64(h.GetSampleCount())
				below := uint64(0)
				for _, b := range h.Bucket {
					if b.GetCumulativeCount() < below || b.GetCumulativeCount() > h.GetSampleCount() {
						t.Errorf("%s: %v", name, h)
					}
					below = b.GetCumulativeCount()
				}
			default:
				t.Errorf("%s: %v", at, m)
			}
		}
	}
	return all
}

// sum adds up a metric over all partitions.
func (s scraped) sum(name string) (sum float64) {
	for at, value := range s {
		if strings.HasPrefix(at, name+" ") {
			sum += value
		}
	}
	return sum
}

// TestHandler checks the answers for a flow on disk that runs, that has a record in quarantine,
// and that has ended.
func TestHandler(t *testing.T) {
	app, err := durable.Start(t.Context(), orders, durable.Options{
		Log: disklog.Dir(t.TempDir()), Partitions: 2, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(monitor.Handler(app))
	defer server.Close()
	for _, path := range []string{"/livez", "/readyz"} {
		if status, text := get(t, server.URL+path); status != http.StatusOK || text != "ok\n" {
			t.Errorf("%s: %d, %s", path, status, text)
		}
	}
	began := float64(time.Now().Unix())
	for i := range 20 {
		err := app.Ports.Put(t.Context(), i, i)
		if i == 13 != errors.As(err, new(*durable.QuarantinedError)) {
			t.Fatal(i, err)
		}
	}
	s := scrape(t, app)
	for name, want := range map[string]float64{
		"millrace_durable_live": 1, "millrace_durable_ready": 1, "millrace_durable_log_up": 1,
		"millrace_durable_quarantined_total":              1,
		"millrace_durable_partition_state 0 yard running": 1, "millrace_durable_partition_state 1 yard running": 1,
		"millrace_durable_partition_state 1 yard stopped": 0,
	} {
		if got, ok := s[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if n := s["millrace_durable_append_seconds"]; n != 20 {
		t.Errorf("%v appends", n)
	}
	if n := s["millrace_durable_commit_seconds"]; n != s["millrace_durable_steps_total"] || n < 2 {
		t.Errorf("%v commits, %v steps", n, s["millrace_durable_steps_total"])
	}
	if n := s.sum("millrace_durable_quarantine"); n != 1 {
		t.Errorf("%v letters in quarantine", n)
	}
	if n := s.sum("millrace_durable_lag_records"); n != 0 {
		t.Errorf("%v records wait, and all were answered", n)
	}
	for p := range 2 {
		if at := s[fmt.Sprintf("millrace_durable_last_commit_timestamp_seconds %d yard", p)]; at < began {
			t.Errorf("partition %d committed at %v, and began at %v", p, at, began)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if status, text := get(t, server.URL+path); status != http.StatusServiceUnavailable || text != durable.ErrStopped.Error()+"\n" {
			t.Errorf("%s of a flow that was stopped: %d, %s", path, status, text)
		}
	}
	if s := scrape(t, app); s["millrace_durable_live"] != 0 || s["millrace_durable_snapshots_total"] != 2 || s["millrace_durable_partition_state 0 yard ended"] != 1 {
		t.Error(s)
	}
	if r, err := http.Post(server.URL+"/livez", "", nil); err != nil || r.StatusCode != http.StatusMethodNotAllowed {
		t.Error(r, err)
	}
}

// A sick is a flow with an invented health.
type sick durable.Health

func (s sick) Health() durable.Health { return durable.Health(s) }

// TestReasons checks the answers for flows that are not ready, and labels that need escaping.
func TestReasons(t *testing.T) {
	most := durable.Lag{Records: 10, Bytes: 100}
	of := func(state durable.PartitionState, change func(*durable.PartitionStatus)) durable.Health {
		p := durable.PartitionStatus{Partition: 3, State: state}
		p.Name = "a \"b\"\\\n\xff"
		if change != nil {
			change(&p)
		}
		return durable.Health{MaxLag: most, Partitions: []durable.PartitionStatus{p}}
	}
	for _, test := range []struct {
		health durable.Health
		want   string // expected in the reason; empty if ready
	}{
		{of(durable.Running, nil), ""},
		{of(durable.Elsewhere, func(p *durable.PartitionStatus) { p.Lag = most }), ""},
		{of(durable.Restoring, nil), "partition 3 of a"},
		{of(durable.Running, func(p *durable.PartitionStatus) { p.Lag.Records = 10 }), "10 records and 0 bytes behind"},
		{of(durable.Running, func(p *durable.PartitionStatus) { p.Lag.Bytes = 100 }), "100 bytes behind"},
		{of(durable.Full, func(p *durable.PartitionStatus) { p.Blocked = &dataflow.BlockedError{Port: "kept"} }), "kept"},
		{of(durable.Stopped, func(p *durable.PartitionStatus) {
			p.Stopped = &durable.PartitionError{Partition: 3, Err: context.DeadlineExceeded}
		}), "partition 3"},
		{durable.Health{MaxLag: most, Log: journal.ErrFull}, "no room"},
		{durable.Health{Ended: true, Err: io.ErrUnexpectedEOF}, "unexpected EOF"},
	} {
		server := httptest.NewServer(monitor.Handler(sick(test.health)))
		status, text := get(t, server.URL+"/readyz")
		if (status == http.StatusOK) != (test.want == "") || !strings.Contains(text, test.want) {
			t.Errorf("%d, %s, want %q", status, text, test.want)
		}
		live, _ := get(t, server.URL+"/livez")
		if s := scrape(t, sick(test.health)); (s["millrace_durable_ready"] == 1) != (test.want == "") || (live == http.StatusOK) == test.health.Ended {
			t.Errorf("%q: livez %d, %v", test.want, live, s)
		}
		server.Close()
	}
}
