// Package intake bounds what one runtime can have of a tool server: how often it may send
// notifications, how often one of them has an effect, and how many messages are on their way to it.
package intake
