package agentinspect_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/millrace/millrace/agentproto/agentinspect"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow/inspect"
)

// A program with a runtime shows the runtime's pages beside the page of its flow.
func Example() {
	ctx := context.Background()
	rt, err := host.Start(ctx, host.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Stop(ctx)

	site := httptest.NewServer(inspect.Handler(rt.Flow(), inspect.Options{
		Token: "secret", Values: true,
		Sections: []inspect.Section{agentinspect.Section(rt, agentinspect.Options{Answers: true})},
	}))
	defer site.Close()
	for _, token := range []string{"secret", "a guess"} {
		r, err := http.NewRequest("GET", site.URL+"/agents/v1/status", nil)
		if err != nil {
			log.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	// Output:
	// 200
	// 401
}
