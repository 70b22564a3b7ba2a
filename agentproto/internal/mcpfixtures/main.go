// Command mcpfixtures serves, over MCP, the tools that the official conformance suite of MCP needs. They are tools of a RAP
// tool server, called by a runtime. .ci/mcp-conformance runs it. It is only for tests.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
	"github.com/millrace/millrace/internal/edge"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` of MCP")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, *listen); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, listen string) error {
	tools, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	base := "http://" + tools.Addr().String()
	back := edge.New(fixtures(base), edge.Options{})
	defer back.Close()
	go back.Serve(tools)
	rt, err := host.Start(ctx, host.Options{Toolsets: []string{base}, Surface: unseen{}})
	if err != nil {
		return err
	}
	defer rt.Stop(context.WithoutCancel(ctx))
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server, err := mcpserver.New(mcpserver.Options{
		Calls: failing{mcpserver.Of(rt)}, Origins: []string{"http://" + l.Addr().String()}, Poll: 100 * time.Millisecond, Rate: 1000,
		AskFirst:   func(tool string) bool { return tool == asksFirst },
		NeedsTasks: func(tool string) bool { return tool == "failing_job" },
	})
	if err != nil {
		return err
	}
	log.Printf("http://%s/mcp", l.Addr())
	mux := http.NewServeMux()
	mux.Handle("/mcp", server)
	web := edge.New(mux, edge.Options{Body: -1})
	context.AfterFunc(ctx, func() { web.Close() })
	return web.Serve(l)
}

// failing makes the calls of some tools fail without a result, as those of a runtime never do.
type failing struct{ mcpserver.Calls }

func (f failing) Call(ctx context.Context, req host.Request) (agentproto.CallKey, error) {
	if req.Operation == neverUsable {
		return agentproto.CallKey{}, &jsonrpc.Error{
			Code: mcp.CodeMissingRequiredClientCapabilities, Message: "this needs sampling", Data: []byte(`{"requiredCapabilities":{"sampling":{}}}`),
		}
	}
	return f.Calls.Call(ctx, req)
}

func (f failing) Describe(ctx context.Context, key agentproto.CallKey) (host.Description, error) {
	return lost(f.Calls.Describe(ctx, key))
}

func (f failing) Changed(ctx context.Context, key agentproto.CallKey, after uint64) (host.Description, error) {
	return lost(f.Calls.Changed(ctx, key, after))
}

func (f failing) Progressed(ctx context.Context, key agentproto.CallKey, after, said uint64) (host.Description, error) {
	return lost(f.Calls.Progressed(ctx, key, after, said))
}

const lostText = "Error: lost"

func lost(d host.Description, err error) (host.Description, error) {
	if err == nil && d.Resolution != nil && d.Resolution.Result.String() == lostText {
		return d, &mcpserver.Failure{Message: "the call was lost"}
	}
	return d, err
}

// unseen is a surface that shows nothing: prompts are answered over MCP.
type unseen struct{}

func (unseen) OAuth(context.Context, agentproto.CallKey, *agentproto.OAuth)       {}
func (unseen) Choice(context.Context, agentproto.CallKey, *agentproto.UserChoice) {}
func (unseen) Withdraw(agentproto.CallKey, string)                                {}
func (unseen) Progress(agentproto.CallKey, agentproto.State)                      {}
func (unseen) View(agentproto.CallKey, *agentproto.ViewUpdate)                    {}
