// Package deliver publishes finished work for review, and reads the state of its pull request.
package deliver
