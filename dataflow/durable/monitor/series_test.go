package monitor_test

import (
	"errors"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/monitor"
)

// known returns a health with a distinct value in every field.
func known() durable.Health {
	at := time.Unix(1_700_000_000, 250_000_000)
	spent := func(n uint64) durable.Durations {
		return durable.Durations{Count: 3 * n, Sum: time.Duration(n) * time.Second, Classes: []durable.DurationClass{
			{Bound: time.Millisecond, Count: n}, {Bound: 500 * time.Millisecond, Count: 2 * n},
		}}
	}
	return durable.Health{
		Partitions: []durable.PartitionStatus{
			{
				LocationStatus: dataflow.LocationStatus{Name: "a \"b\"\\\n\xff", Calls: 11, Timers: 12}, Owned: true, State: durable.Running,
				Lag: durable.Lag{Records: 13, Bytes: 14}, Waiting: 1500 * time.Millisecond, Clock: -16 * time.Second,
				Committed: at, Saved: at.Add(time.Second), Quarantined: 17, Sources: 18,
			},
			{LocationStatus: dataflow.LocationStatus{Name: "yard"}, Partition: 1, State: durable.Elsewhere, Lag: durable.Lag{Records: 19, Bytes: 20}},
		},
		Metrics: durable.Metrics{
			Records: 21, Steps: 22, Snapshots: 23, Restores: 24, Replayed: 25, Quarantined: 26, WrongClocks: 27, Fenced: 28, Unknown: 29, NoRoom: 30,
			Append: spent(31), Commit: spent(32), Save: spent(33), LastRestore: 34 * time.Second, LastSnapshot: 35 * time.Millisecond, LastSnapshotSize: 1 << 30,
		},
		MaxLag: durable.Lag{Records: 1000, Bytes: 1000}, Witness: errors.New("away"), Members: []string{"x", "y"},
		Size: journal.Size{Bytes: 1 << 40, Kept: 42, MaxBytes: 43, Free: 44, Disk: 45}, Measured: at,
	}
}

// TestSeries compares every series with testdata. The names must not change, because dashboards and
// alerts use them.
func TestSeries(t *testing.T) {
	server := httptest.NewServer(monitor.Handler(sick(known())))
	defer server.Close()
	want, err := os.Open("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if err := testutil.ScrapeAndCompare(server.URL+"/metrics", want); err != nil {
		t.Error(err)
	}
}
