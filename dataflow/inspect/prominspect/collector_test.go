package prominspect_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/dataflow/inspect/prominspect"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

type server struct{ dataflow.Process }

// votes holds the ports of a flow that counts votes and logs them.
type votes struct {
	in  *dataflow.InputPort[string]
	log *dataflow.OutputPort[string]
}

// count builds a flow that counts votes by key and passes them through a slice.
func count(flow *dataflow.Flow) votes {
	in, all := dataflow.Input[string](dataflow.At[server](flow), "votes")
	words := dataflow.KeyBy(dataflow.Map(all, strings.TrimSpace), strings.ToLower)
	dataflow.Named("tally", keyedstream.Count(words))
	tick := slice.At(dataflow.At[server](flow))
	batch := slice.Batch(tick, all, "only its runs are looked at")
	dataflow.Output(slice.Emit(batch), "batches")
	return votes{in, dataflow.Output(all, "log")}
}

// counting starts the flow. Four unread elements stop its location.
func counting(t *testing.T) (*dataflow.App, votes) {
	t.Helper()
	flow := dataflow.NewWithOptions(dataflow.Options{Count: true, Buffer: 4, OnBlocked: func(*dataflow.BlockedError) {}})
	ports := count(flow)
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	return app, ports
}

// registryOf returns a pedantic registry with the metrics of app.
func registryOf(app inspect.App) *prometheus.Registry {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(prominspect.Collector(app, prominspect.Options{Name: "votes"}))
	return registry
}

// gather returns the values by name and labels, except the label flow.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			name := strings.TrimPrefix(f.GetName(), "millrace_")
			for _, l := range m.Label {
				switch {
				case l.GetName() != "flow":
					name += " " + l.GetValue()
				case l.GetValue() != "votes":
					t.Errorf("%s is of the flow %q", name, l.GetValue())
				}
			}
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}

// want checks that values contains the values in some.
func want(t *testing.T, values map[string]float64, some map[string]float64) {
	t.Helper()
	for name, value := range some {
		if is, ok := values[name]; !ok || is != value {
			t.Errorf("%s is %v, %v, want %v", name, is, ok, value)
		}
	}
}

// TestCollector checks the values after sends, and that a second scrape returns the same series.
func TestCollector(t *testing.T) {
	app, ports := counting(t)
	registry := registryOf(app)
	before := gather(t, registry)
	for _, v := range []string{"yes", "no", "YES"} {
		if err := ports.in.Send(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	after := gather(t, registry)
	if !slices.Equal(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after))) {
		t.Errorf("series of two scrapes:\n%v\n%v", before, after)
	}
	want(t, after, map[string]float64{
		"flow_running":                                         1,
		"flow_failed":                                          0,
		"location_running server":                              1,
		"location_stopped_seconds server":                      0,
		"records_total server":                                 3,
		"queue_records server":                                 0,
		"queue_senders server":                                 0,
		"scrape_stale_seconds server":                          0,
		"slice_runs_total server 0":                            3,
		"operator_records_total server dataflow.Input#0 votes": 3,
		"operator_records_total server tally ":                 3,
		"operator_keys server tally ":                          2,
		"operator_timers server tally ":                        0,
	})
	for name := range after {
		if regexp.MustCompile(`\.go|dataflow\.Map#`).MatchString(name) {
			t.Errorf("there is %s", name)
		}
	}
	operator := func(port string) string {
		i := slices.IndexFunc(app.Graph().Operators, func(o dataflow.GraphOperator) bool { return o.Port == port })
		return fmt.Sprintf("server dataflow.Output#%d %s", i, port)
	}
	want(t, after, map[string]float64{
		"output_records_total " + operator("log"):   3,
		"output_waiting_records " + operator("log"): 3,
		"output_limit_records " + operator("log"):   4,
	})
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestStopped checks the metrics while an unread output stops the location, and after the output was read.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, ports := counting(t)
		registry := registryOf(app)
		for i := range 5 {
			if err := ports.in.Send(t.Context(), strings.Repeat("a", i)); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(11 * time.Second)
		want(t, gather(t, registry), map[string]float64{"location_running server": 0, "location_stopped_seconds server": 11, "flow_running": 1})
		if err := app.Stop(ended(t)); err == nil {
			t.Error("the flow has stopped, and was full")
		}
	})
}

// ended returns a context that has ended.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestLongStep scrapes during a long step: it returns the previous values at once, with their age.
func TestLongStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, all := dataflow.Input[int](dataflow.At[server](flow), "in")
		gate := make(chan struct{})
		dataflow.Output(dataflow.Map(all, func(i int) int { <-gate; return i }), "out")
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		registry := registryOf(app)
		want(t, gather(t, registry), map[string]float64{"scrape_stale_seconds server": 0})
		go in.Send(t.Context(), 1)
		<-time.After(time.Minute)
		began := time.Now()
		values := gather(t, registry)
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("a scrape took %v", took)
		}
		want(t, values, map[string]float64{"records_total server": 0})
		if age := values["scrape_stale_seconds server"]; age < 60 || age > 61 {
			t.Errorf("the figures are %v s old", age)
		}
		close(gate)
		synctest.Wait()
		want(t, gather(t, registry), map[string]float64{"scrape_stale_seconds server": 0, "records_total server": 1})
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, gather(t, registry), map[string]float64{"flow_running": 0, "flow_failed": 0, "records_total server": 1})
	})
}

// TestPartitions checks the metrics of a durable flow.
func TestPartitions(t *testing.T) {
	type hall struct{ dataflow.Cluster }
	app, err := durable.Start(t.Context(), func(flow *dataflow.Flow) *dataflow.EntryInputPort[string, int] {
		in, all := keyedsingleton.Input[string, int](dataflow.At[hall](flow), "votes")
		keyedsingleton.Output(all, "kept")
		return in
	}, durable.Options{
		Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{Partitions: 3})}, Name: "votes", Partitions: 3, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range strings.Fields("a b c d e f g h i j") {
		if err := app.Ports.Put(t.Context(), k, i); err != nil {
			t.Fatal(err)
		}
	}
	registry := registryOf(app)
	want(t, gather(t, registry), map[string]float64{
		"partition_running hall 0": 1, "partition_running hall 2": 1, "partition_quarantined hall 1": 0,
		"output_waiting_records hall keyedsingleton.Output#1 kept": 10,
	})
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, gather(t, registry), map[string]float64{"partition_running hall 0": 0})
}

// TestTwoFlows registers two flows in one registry.
func TestTwoFlows(t *testing.T) {
	one, _ := counting(t)
	two, _ := counting(t)
	registry := registryOf(one)
	registry.MustRegister(prominspect.Collector(two, prominspect.Options{Name: "\xff"}))
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
	if err := registry.Register(prominspect.Collector(two, prominspect.Options{Name: "votes"})); err == nil {
		t.Error("two flows of one name are registered")
	}
}

// TestComment checks that the package comment lists every metric.
func TestComment(t *testing.T) {
	comment, err := os.ReadFile("prominspect.go")
	if err != nil {
		t.Fatal(err)
	}
	app, _ := counting(t)
	descs := make(chan *prometheus.Desc, 100)
	prominspect.Collector(app, prominspect.Options{}).Describe(descs)
	close(descs)
	for d := range descs {
		name := regexp.MustCompile(`"millrace(\w+)"`).FindStringSubmatch(d.String())[1]
		if !regexp.MustCompile(name + `\b`).Match(comment) {
			t.Errorf("the comment has no %s", name)
		}
	}
}
