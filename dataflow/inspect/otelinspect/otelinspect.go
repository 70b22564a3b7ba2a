// Package otelinspect exports the figures of a running flow as metrics of OpenTelemetry. [Register] is its only function.
//
//	registration, err := otelinspect.Register(app, provider.Meter("millrace"), otelinspect.Options{Name: "votes"})
//
// The metrics are those of package prominspect, which explains them, under names of OpenTelemetry. A name that ends in _total
// there is a counter here, without that word. _seconds and _bytes become the units s and By. '_' becomes '.', so
// millrace_operator_records_total is millrace.operator.records. The labels are attributes: millrace.flow, millrace.location,
// millrace.operator, millrace.port, millrace.slice and millrace.partition.
//
// One callback serves all instruments, so a collection takes one [inspect.Snapshot]: all figures of a location are from the same
// moment between two steps. It takes at most 10 ms. Nothing runs between collections.
package otelinspect

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/dataflow/inspect/internal/figures"
)

// Options are the optional settings of [Register].
type Options struct {
	// Name is the attribute millrace.flow of all metrics, which distinguishes the flows of a process. Empty means "flow".
	Name string
}

// Register makes meter collect the metrics of app, as the package comment describes, until the registration is unregistered.
// Flows of one meter need different names. Register panics if app is not a running flow.
func Register(app inspect.App, meter metric.Meter, o Options) (metric.Registration, error) {
	if app == nil || meter == nil {
		panic("otelinspect: Register needs a flow, what dataflow.Start or durable.Start returned, and a meter")
	}
	source := figures.New(app)
	flow := attribute.String("millrace.flow", figures.Flow(o.Name))
	families := figures.Families()
	instruments := make([]instrument, len(families))
	observables := make([]metric.Observable, len(families))
	var errs []error
	for i := range families {
		var err error
		instruments[i], observables[i], err = newInstrument(meter, &families[i])
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, f := range source.Take() {
			attributes := []attribute.KeyValue{flow}
			for i, label := range families[f.Family].Labels {
				if f.Labels[i] != "" {
					attributes = append(attributes, attribute.String("millrace."+label, f.Labels[i]))
				}
			}
			instruments[f.Family](to, f.Value, metric.WithAttributes(attributes...))
		}
		return nil
	}, observables...)
}

// An instrument records a value with an observer.
type instrument func(to metric.Observer, value float64, with metric.MeasurementOption)

// newInstrument creates the instrument of a metric. Values are integers, except durations.
func newInstrument(meter metric.Meter, f *figures.Family) (instrument, metric.Observable, error) {
	name, unit, help := "millrace."+f.Name, metric.WithUnit(f.Unit), metric.WithDescription(f.Help)
	whole := func(x metric.Int64Observable) instrument {
		return func(to metric.Observer, value float64, with metric.MeasurementOption) {
			to.ObserveInt64(x, int64(value), with)
		}
	}
	switch {
	case f.Kind == figures.Counter:
		x, err := meter.Int64ObservableCounter(name, unit, help)
		return whole(x), x, err
	case f.Kind == figures.Amount:
		x, err := meter.Int64ObservableUpDownCounter(name, unit, help)
		return whole(x), x, err
	case f.Unit != "s":
		x, err := meter.Int64ObservableGauge(name, unit, help)
		return whole(x), x, err
	}
	x, err := meter.Float64ObservableGauge(name, unit, help)
	return func(to metric.Observer, value float64, with metric.MeasurementOption) {
		to.ObserveFloat64(x, value, with)
	}, x, err
}
