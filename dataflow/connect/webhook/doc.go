// Package webhook sends the elements of an output to an HTTP endpoint. Start with [Sink].
//
//	drains := connect.Drain(ctx, app, out, webhook.Sink[Order]{URL: "https://example.com/orders", Secrets: secrets}, connect.DrainOptions{Flow: "shop", Output: "orders"})
//
// Each element is a request of its own, with the same Idempotency-Key whenever it is sent:
//
//	FLOW/OUTPUT/PARTITION/NUMBER
//
// An element is sent again if there was no answer, if the answer says that it may be tried again, and after a crash. So it has
// its effect once if the receiver acts only once on a key, and remembers keys for as long as the process may be down. With
// secrets, requests are signed according to Standard Webhooks. The key is the id of the message.
//
// To receive webhooks, use package serve: the id of the sender's message is the key of a request.
package webhook
