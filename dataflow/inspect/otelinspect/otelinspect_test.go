package otelinspect_test

import (
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/inspect/otelinspect"
	"github.com/millrace/millrace/dataflow/inspect/prominspect"
	"github.com/millrace/millrace/keyedstream"
)

type server struct{ dataflow.Process }

// An asked is a flow that counts the calls of its Status method.
type asked struct {
	*dataflow.App
	times int
}

func (a *asked) Status() []dataflow.LocationStatus {
	a.times++
	return a.App.Status()
}

// collected holds values of metrics, by the name that Prometheus uses and the values of the labels.
type collected map[string]float64

// point adds a value.
func (c collected) point(m *metricdata.Metrics, counter bool, attributes attribute.Set, value float64) {
	name := strings.ReplaceAll(m.Name, ".", "_")
	switch m.Unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	}
	if counter {
		name += "_total"
	}
	for _, label := range []string{"flow", "location", "operator", "port", "slice"} {
		if v, ok := attributes.Value(attribute.Key("millrace." + label)); ok {
			name += " " + v.AsString()
		}
	}
	c[name] = value
}

// collect reads all metrics once.
func collect(t *testing.T, reader *sdk.ManualReader) collected {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	c := make(collected)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Description == "" || m.Unit == "" {
				t.Errorf("%s has the unit %q and the description %q", m.Name, m.Unit, m.Description)
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					c.point(&m, data.IsMonotonic, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					c.point(&m, false, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					c.point(&m, false, p.Attributes, p.Value)
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	return c
}

// TestRegister checks that the metrics equal those of package prominspect and that each collection takes one snapshot.
func TestRegister(t *testing.T) {
	flow := dataflow.NewWithOptions(dataflow.Options{Count: true})
	in, votes := dataflow.Input[string](dataflow.At[server](flow), "votes")
	dataflow.Named("tally", keyedstream.Count(dataflow.KeyBy(votes, strings.ToLower)))
	dataflow.Output(votes, "log")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"yes", "no", "YES"} {
		if err := in.Send(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	reader := sdk.NewManualReader()
	a := &asked{App: app}
	registration, err := otelinspect.Register(a, sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test"), otelinspect.Options{Name: "votes"})
	if err != nil {
		t.Fatal(err)
	}
	a.times = 0
	got := collect(t, reader)
	if a.times != 1 {
		t.Errorf("a collection took %d snapshots", a.times)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(prominspect.Collector(app, prominspect.Options{Name: "votes"}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := make(collected)
	for _, f := range families {
		for _, m := range f.Metric {
			labels := make(map[string]string)
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			name := f.GetName()
			for _, label := range []string{"flow", "location", "operator", "port", "slice"} {
				if labels[label] != "" {
					name += " " + labels[label]
				}
			}
			want[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for name, value := range want {
		if is, ok := got[name]; !ok || math.Abs(is-value) > 1e-9 {
			t.Errorf("%s is %v, %v, want %v", name, is, ok, value)
		}
	}
	if len(got) != len(want) || got["millrace_operator_keys votes server tally"] != 2 {
		t.Errorf("there are %v, want %v", got, want)
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, reader); len(got) > 0 {
		t.Errorf("after the end there are %v", got)
	}
}
