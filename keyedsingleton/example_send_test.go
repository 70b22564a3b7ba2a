package keyedsingleton_test

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

// A Vault is the location to which an example sends requests.
type Vault struct{ dataflow.Process }

// A request goes to another location, and its answer comes back under the same key.
func ExampleSend() {
	ctx := context.Background()
	flow := dataflow.New()
	bank, vault := dataflow.At[Bank](flow), dataflow.At[Vault](flow)
	in, requests := keyedsingleton.Input[string, int](bank, "requests")
	counted := keyedsingleton.Map(keyedsingleton.Send(requests, vault), func(n int) string { return fmt.Sprint(n, " coins") })
	answers := keyedsingleton.Output(keyedsingleton.Send(counted, bank), "answers")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	in.Put(ctx, "ada", 3)
	fmt.Println(answers.Await(ctx, "ada"))
	fmt.Println(app.Stop(ctx))
	// Output:
	// 3 coins <nil>
	// <nil>
}
