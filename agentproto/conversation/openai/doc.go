// Package openai asks models through the chat completions interface, which many services and self-hosted model servers implement.
//
//	rt, err := host.Start(ctx, host.Options{
//		Toolsets: toolsets,
//		Model:    openai.New(openai.Options{Name: "gpt-5", Key: os.Getenv("OPENAI_API_KEY")}),
//	})
//
// # Tolerated answers
//
// The many implementations of the interface differ. An answer may be a stream of events or one JSON object. The index of calls
// may be unique, always the same, or missing. An identifier and a name may come once or in each part; a missing identifier is
// made up. Arguments may be a string or an object. The finish reason may be missing if the service says that it is done or the
// response ends properly. Tokens are counted if the service counts them; a service that refuses a request to count is not asked
// to again. Comments, the model's reasoning and alternative answers are ignored. Answers are limited to 16 MiB and 1,024 calls.
//
// # Retries
//
// After a broken connection, a response that ends in the middle, and the statuses 408, 409, 429 and 5xx, the conversation asks
// again. No call is made with arguments that were cut. A response that is no answer at all, such as the page of a proxy, an
// answer that exceeds the limits, a redirect, and every other status are permanent errors: the user is told at once.
//
// Images of results follow the results in a separate message, because the interface allows only text in results.
package openai
