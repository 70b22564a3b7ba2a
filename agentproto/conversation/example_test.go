package conversation_test

import (
	"context"
	"fmt"
	"log"

	"github.com/millrace/millrace/agentproto/conversation"
)

// A function is a model: this one repeats what the user said last.
func Example() {
	var model conversation.Model = conversation.ModelFunc(func(_ context.Context, r *conversation.Request) (*conversation.Reply, error) {
		last := r.Messages[len(r.Messages)-1]
		return &conversation.Reply{Text: "You said: " + last.Text}, nil
	})
	reply, err := model.Reply(context.Background(), &conversation.Request{
		Messages: []conversation.Message{{Kind: conversation.User, Text: "hello"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.Text)
	// Output:
	// You said: hello
}

// A person or a test can play the model of a thread.
func ExampleManual() {
	var model conversation.Manual
	ctx := context.Background()
	go func() {
		question, err := model.Next(ctx, "session-1")
		if err != nil {
			log.Fatal(err)
		}
		question.Answer(&conversation.Reply{Text: "a person's answer in round " + fmt.Sprint(question.Request.Round)})
	}()
	reply, err := model.Reply(ctx, &conversation.Request{Thread: "session-1", Round: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.Text)
	// Output:
	// a person's answer in round 1
}
