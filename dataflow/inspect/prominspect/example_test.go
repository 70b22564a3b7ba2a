package prominspect_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/inspect/prominspect"
)

// A program serves the metrics of its flow together with its own.
func Example() {
	flow := dataflow.New()
	in, words := dataflow.Input[string](dataflow.At[server](flow), "words")
	dataflow.Output(words, "kept")
	app, err := dataflow.Start(context.Background(), flow)
	if err != nil {
		panic(err)
	}
	_ = in.Send(context.Background(), "hello")

	registry := prometheus.NewRegistry()
	registry.MustRegister(prominspect.Collector(app, prominspect.Options{Name: "words"}))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{}) // for mux.Handle("/metrics", handler)

	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "millrace_output_waiting_records{") || strings.HasPrefix(lines.Text(), "millrace_records_total{") {
			fmt.Println(lines.Text())
		}
	}
	// Output:
	// millrace_output_waiting_records{flow="words",location="server",operator="dataflow.Output#1",port="kept"} 1
	// millrace_records_total{flow="words",location="server"} 1
}
