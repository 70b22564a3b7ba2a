package monitor_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestSizeAndClock checks the metrics of the disk and of the clock of a flow. The flow's clock is an
// hour behind the system's.
func TestSizeAndClock(t *testing.T) {
	began, wrong := time.Now(), time.Duration(0)
	opts := durable.Options{
		Log: disklog.Dir(t.TempDir()), Partitions: 2, MaxBytes: 1 << 30, MaxGap: time.Minute, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Now().Add(wrong) },
	}
	app, err := durable.Start(t.Context(), orders, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Ports.Put(t.Context(), 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrong = time.Hour + time.Minute
	if app, err = durable.Start(t.Context(), orders, opts); err != nil {
		t.Fatal(err)
	}
	s := scrape(t, app)
	if n := s["millrace_durable_log_measured_timestamp_seconds"]; n < float64(began.Unix()) {
		t.Errorf("measured at %v", n)
	}
	if s["millrace_durable_log_bytes"] < 16<<20 || s["millrace_durable_log_max_bytes"] != 1<<30 { // the reserve exists
		t.Errorf("%v bytes, %v at most", s["millrace_durable_log_bytes"], s["millrace_durable_log_max_bytes"])
	}
	if free, all := s["millrace_durable_disk_free_bytes"], s["millrace_durable_disk_bytes"]; free > all || all == 0 {
		t.Errorf("%v of %v bytes are free", free, all)
	}
	if n, ok := s["millrace_durable_members"]; ok {
		t.Errorf("a log of one process has %v members", n)
	}
	for _, p := range []string{"0", "1"} {
		if by := s["millrace_durable_clock_offset_seconds "+p+" yard"]; by < -3700 || by > -3500 {
			t.Errorf("partition %s is %v seconds ahead", p, by)
		}
	}
	if n, owned := s["millrace_durable_wrong_clocks_total"], s["millrace_durable_partitions_owned"]; n != 2 || owned != 2 {
		t.Errorf("%v partitions were restored with a wrong clock, of %v", n, owned)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestWhereKnown checks that figures that a log does not report are left out, and that the package
// comment lists all others.
func TestWhereKnown(t *testing.T) {
	names := func(h durable.Health) map[string]bool {
		all := make(map[string]bool)
		for at := range scrape(t, sick(h)) {
			name, _, _ := strings.Cut(at, " ")
			all[strings.TrimPrefix(name, "millrace_durable")] = true
		}
		return all
	}
	partitions := []durable.PartitionStatus{{State: durable.Running, Owned: true, Committed: time.Now(), Saved: time.Now()}}
	least := names(durable.Health{Partitions: partitions})
	most := names(durable.Health{
		Partitions: partitions, Members: []string{}, Measured: time.Now(), Size: journal.Size{MaxBytes: 1, Free: 1, Disk: 1},
	})
	for _, name := range []string{"_members", "_log_bytes", "_log_kept_bytes", "_log_max_bytes", "_disk_free_bytes", "_disk_bytes", "_log_measured_timestamp_seconds"} {
		if least[name] || !most[name] {
			t.Errorf("%s: %v where it is not known, %v where it is", name, least[name], most[name])
		}
	}
	comment, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for name := range most {
		if !strings.Contains(string(comment), name+" ") && !strings.Contains(string(comment), name+",") && !strings.Contains(string(comment), name+"\n") {
			t.Errorf("the comment of the package has no %s", name)
		}
	}
}
