package otelinspect_test

import (
	"context"
	"fmt"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/inspect/otelinspect"
)

// A program reports the figures of its flow to its existing meter provider.
func Example() {
	flow := dataflow.New()
	in, words := dataflow.Input[string](dataflow.At[server](flow), "words")
	dataflow.Output(words, "kept")
	app, err := dataflow.Start(context.Background(), flow)
	if err != nil {
		panic(err)
	}
	_ = in.Send(context.Background(), "hello")

	reader := sdk.NewManualReader() // or one that exports
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	if _, err := otelinspect.Register(app, provider.Meter("millrace"), otelinspect.Options{Name: "words"}); err != nil {
		panic(err)
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		panic(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "millrace.records" {
			fmt.Println(m.Name, m.Unit, m.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
		}
	}
	// Output:
	// millrace.records {record} 1
}
