package host_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/millrace/millrace/agentproto/host"
)

// Each session keeps the tools that existed when it began.
func ExampleRuntime_ToolsOf() {
	server := greeter()
	defer server.Close()
	ctx := context.Background()
	rt, err := host.Start(ctx, host.Options{Toolsets: []string{server.URL}})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Stop(ctx)

	tools, problems, err := rt.ToolsOf(ctx, "conversation-1")
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range tools {
		fmt.Println(t.Toolset, t.Name, t.Description)
	}
	fmt.Println(len(problems), "problems")
	// Output:
	// greeter greet Greets.
	// 0 problems
}

// A program checks a configuration before it stops what runs with the present one.
func ExampleCheck() {
	err := host.Check(host.Options{Toolsets: []string{"https://tools.example", "tools.example"}})
	fmt.Println(err)
	// Output:
	// host: toolset "tools.example": not an http or https URL
}

// A runtime uses tool servers in a private network. One of them signs what it sends and
// requires signatures.
func ExampleOptions() {
	opts := host.Options{
		Toolsets:      []string{"https://tools.internal.example", "http://10.1.2.3:8080"},
		PublicURL:     "https://agents.example",
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		Secrets: map[string][]string{
			"https://tools.internal.example": {"whsec_bm90IGEgc2VjcmV0LCBhbiBleGFtcGxlIG9mIG9uZQ=="},
		},
		Bounds: host.Bounds{Rates: host.Rates{Call: host.Rate{Second: 1 << 20, Burst: 16 << 20}}}, // for tools that show a lot
	}
	fmt.Println(len(opts.Toolsets), "tool servers")
	// Output: 2 tool servers
}
