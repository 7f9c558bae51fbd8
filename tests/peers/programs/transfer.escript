#!/usr/bin/env escript
%% gen_sctp of Erlang/OTP: one end of a transfer, in the style of one-to-many sockets.
%%
%%     transfer.escript listen OWN PORT
%%     transfer.escript connect OWN FAR PORT

main(["listen", Own, Port]) ->
    Socket = open(Own, [{port, list_to_integer(Port)}]),
    ok = gen_sctp:listen(Socket, true),
    io:format("listening~n"),
    receive_all(Socket);
main(["connect", Own, Far, Port]) ->
    Socket = open(Own, []),
    {ok, Address} = inet:parse_address(Far),
    {ok, Association} = gen_sctp:connect(Socket, Address, list_to_integer(Port), []),
    [send(Socket, Association, binary:copy(<<Number>>, 1000)) || Number <- lists:seq(1, 100)],
    ok = gen_sctp:eof(Socket, Association),
    receive_all(Socket).

open(Own, Options) ->
    {ok, Address} = inet:parse_address(Own),
    {ok, Socket} = gen_sctp:open([{ip, Address}, binary, {active, false}, {recbuf, 65536} | Options]),
    Socket.

%% The driver does not wait for room.
send(Socket, Association, Data) ->
    case gen_sctp:send(Socket, Association, 0, Data) of
        ok -> io:format("~b bytes~n", [byte_size(Data)]);
        {error, eagain} -> timer:sleep(5), send(Socket, Association, Data)
    end.

receive_all(Socket) ->
    case gen_sctp:recv(Socket) of
        {ok, {_, _, _, Data}} when is_binary(Data) ->
            io:format("~b bytes~n", [byte_size(Data)]),
            receive_all(Socket);
        {ok, {_, _, _, Event}} ->
            io:format("~p~n", [Event]),
            case element(2, Event) of
                shutdown_comp -> gen_sctp:close(Socket);
                _ -> receive_all(Socket)
            end
    end.
