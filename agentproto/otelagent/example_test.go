package otelagent_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/otelagent"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// In this example a runtime and a tool server, here in one process, record their spans in one trace.
func Example() {
	spans := tracetest.NewInMemoryExporter() // or one that sends them to a collector
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))

	web := httptest.NewUnstartedServer(nil)
	server := toolserver.New(toolserver.Options{
		Name: "tools", PublicURL: "http://" + web.Listener.Addr().String(), Tracer: otelagent.New(provider),
	})
	toolserver.Add(server, "greet", "Greets.", func(context.Context, struct{}) (string, error) { return "Hello!", nil })
	web.Config.Handler = http.Handler(server)
	web.Start()
	defer web.Close()

	ctx, turn := provider.Tracer("agent").Start(context.Background(), "turn")
	rt, err := host.Start(ctx, host.Options{Toolsets: []string{web.URL}, Tracer: otelagent.New(provider)})
	if err != nil {
		log.Fatal(err)
	}
	key, err := rt.Call(ctx, host.Request{GroupID: "conversation-1", Operation: "greet"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := rt.Await(ctx, key); err != nil {
		log.Fatal(err)
	}
	turn.End()
	rt.Stop(ctx)
	server.Close(ctx)

	id := turn.SpanContext().TraceID()
	for _, s := range spans.GetSpans() {
		if s.SpanContext.TraceID() == id && (s.Name == "run greet" || s.Name == "turn") {
			fmt.Println(s.Name)
		}
	}
	// Output:
	// run greet
	// turn
}
