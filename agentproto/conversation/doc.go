// Package conversation is the conversation of a user, a model and tools.
package conversation
