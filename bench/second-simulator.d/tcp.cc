/*
 * One TCP flow of ns-3 over one link, for bench/second-simulator. Arguments NAME=VALUE, output one line of JSON.
 *
 * The link is ns-3's point-to-point link: rate, delay, a FIFO of packets, 2 bytes of PPP around each packet. IP packets of
 * a full segment have 1500 bytes. Without flow control of the device there is no queue discipline above it: its FIFO is the
 * only queue.
 */
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

namespace {

constexpr uint32_t SEGMENT = 1460;
constexpr uint16_t PORT = 9;

/* What the command line says. Times in seconds, rate in bit/s, sizes in packets and bytes. */
struct Options {
	double rate = 1e7, delay = 0.01, loss = 0, warmup = 0, seconds = 10;
	uint64_t packets = 0; /* of the transfer; 0: as many as fit into the time */
	uint32_t queue = 100, buffer = 1 << 20, seed = 1, ping = 0;
	std::string congestion = "Rfc5681", recovery = "TcpPrrRecovery";
} options;

/* What was seen. */
struct {
	uint64_t received = 0, measured = 0, queue_drops = 0, samples = 0;
	double done = 0, rtt = 0, queue_sum = 0, rtt_sum = 0, one_way = 0, round_trip = 0;
} seen;

/*
 * RFC 5681 as RFC 9260 section 7.2 has it: in slow start a segment for each acknowledgement, after that a segment for each
 * window that was acknowledged, counted anew from each loss. TcpNewReno has the first rule, TcpLinuxReno the second.
 */
class Rfc5681 : public TcpNewReno {
public:
	static TypeId GetTypeId() {
		static TypeId id = TypeId("ns3::Rfc5681").SetParent<TcpNewReno>().AddConstructor<Rfc5681>();
		return id;
	}
	std::string GetName() const override {
		return "Rfc5681";
	}
	Ptr<TcpCongestionOps> Fork() override {
		return CopyObject<Rfc5681>(this);
	}
	void CongestionStateSet(Ptr<TcpSocketState>, const TcpSocketState::TcpCongState_t state) override {
		if (state == TcpSocketState::CA_RECOVERY || state == TcpSocketState::CA_LOSS)
			counted = 0;
	}

protected:
	void CongestionAvoidance(Ptr<TcpSocketState> state, uint32_t acknowledged) override {
		counted += acknowledged * state->m_segmentSize;
		if (counted < state->m_cWnd)
			return;
		counted -= state->m_cWnd;
		state->m_cWnd += state->m_segmentSize;
	}

private:
	uint32_t counted = 0;
};

NS_OBJECT_ENSURE_REGISTERED(Rfc5681);

double now() {
	return Simulator::Now().GetSeconds();
}

bool measuring() {
	return now() >= options.warmup;
}

/* Gives the socket what its send buffer takes, in whole segments. */
void fill(Ptr<Socket> socket, uint32_t) {
	static uint64_t given = 0;
	const uint64_t all = options.packets == 0 ? UINT64_MAX : options.packets * SEGMENT;

	while (given < all && socket->GetTxAvailable() >= SEGMENT) {
		if (socket->Send(Create<Packet>(SEGMENT)) < 0)
			return;
		given += SEGMENT;
	}
}

void on_arrival(Ptr<Socket> socket) {
	while (Ptr<Packet> packet = socket->Recv()) {
		seen.received += packet->GetSize();
		if (measuring())
			seen.measured += packet->GetSize();
	}
	if (options.packets != 0 && seen.received >= options.packets * SEGMENT) {
		seen.done = now();
		Simulator::Stop();
	}
}

/* A question of one segment, its answer, and another one a while later. */
double asked;

void ask(Ptr<Socket> socket) {
	asked = now();
	socket->Send(Create<Packet>(SEGMENT));
}

void answer(Ptr<Socket> socket) {
	while (socket->Recv()) {
		seen.one_way = now() - asked;
		socket->Send(Create<Packet>(SEGMENT));
	}
}

void on_answer(Ptr<Socket> socket) {
	while (socket->Recv()) {
		seen.round_trip = now() - asked;
		Simulator::Schedule(MilliSeconds(500), &ask, socket);
	}
}

void on_connection(Ptr<Socket> socket, const Address &) {
	if (options.ping)
		socket->SetRecvCallback(MakeCallback(&answer));
	else
		socket->SetRecvCallback(MakeCallback(&on_arrival));
}

void start(Ptr<Node> node, Ipv4Address to) {
	Ptr<Socket> socket = Socket::CreateSocket(node, TcpSocketFactory::GetTypeId());

	socket->TraceConnectWithoutContext("RTT", MakeCallback(+[](Time, Time sample) {
						   seen.rtt = sample.GetSeconds();
					   }));
	socket->Bind();
	if (options.ping) {
		socket->SetRecvCallback(MakeCallback(&on_answer));
		socket->SetConnectCallback(MakeCallback(&ask), MakeNullCallback<void, Ptr<Socket>>());
	} else {
		socket->SetSendCallback(MakeCallback(&fill));
		socket->SetConnectCallback(MakeCallback(+[](Ptr<Socket> one) { fill(one, 0); }),
					   MakeNullCallback<void, Ptr<Socket>>());
	}
	socket->Connect(InetSocketAddress(to, PORT));
}

void sample(Ptr<Queue<Packet>> queue) {
	if (measuring()) {
		seen.samples++;
		seen.queue_sum += queue->GetNPackets();
		seen.rtt_sum += seen.rtt;
	}
	Simulator::Schedule(MilliSeconds(10), &sample, queue);
}

void configure() {
	const auto type = [](const std::string &name) { return TypeIdValue(TypeId::LookupByName("ns3::" + name)); };

	Config::SetDefault("ns3::TcpL4Protocol::SocketType", type(options.congestion));
	Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", type(options.recovery));
	Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
	Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(3));
	Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
	Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(200)));
	Config::SetDefault("ns3::TcpSocket::TcpNoDelay", BooleanValue(true));
	Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(options.buffer));
	Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(options.buffer));
	Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
	Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1)));
	RngSeedManager::SetSeed(options.seed);
}

NetDeviceContainer join(const NodeContainer &nodes) {
	PointToPointHelper helper;

	helper.DisableFlowControl();
	helper.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(options.rate))));
	helper.SetChannelAttribute("Delay", TimeValue(Seconds(options.delay)));
	helper.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, options.queue)));
	NetDeviceContainer devices = helper.Install(nodes);
	for (uint32_t i = 0; i < devices.GetN(); i++) {
		Ptr<RateErrorModel> errors = CreateObject<RateErrorModel>();
		errors->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
		errors->SetRate(options.loss);
		devices.Get(i)->SetAttribute("ReceiveErrorModel", PointerValue(errors));
	}
	return devices;
}

void parse(int count, char **words) {
	std::map<std::string, double *> numbers = {{"rate", &options.rate},	{"delay", &options.delay},
						   {"loss", &options.loss},	{"warmup", &options.warmup},
						   {"seconds", &options.seconds}};
	std::map<std::string, uint32_t *> counts = {{"queue", &options.queue}, {"buffer", &options.buffer},
						    {"seed", &options.seed},   {"ping", &options.ping}};

	for (int i = 1; i < count; i++) {
		const std::string word = words[i], name = word.substr(0, word.find('=')),
				  value = word.substr(std::min(word.size(), name.size() + 1));
		if (numbers.count(name))
			*numbers[name] = std::stod(value);
		else if (counts.count(name))
			*counts[name] = static_cast<uint32_t>(std::stoul(value));
		else if (name == "packets")
			options.packets = std::stoull(value);
		else if (name == "congestion")
			options.congestion = value;
		else if (name == "recovery")
			options.recovery = value;
		else {
			std::fprintf(stderr, "tcp: unknown option %s\n", name.c_str());
			std::exit(2);
		}
	}
}

} // namespace

int main(int count, char **words) {
	parse(count, words);
	configure();
	NodeContainer nodes(2);
	NetDeviceContainer devices = join(nodes);
	InternetStackHelper().Install(nodes);
	Ipv4InterfaceContainer addresses = Ipv4AddressHelper("10.0.0.0", "255.255.255.0").Assign(devices);

	Ptr<Queue<Packet>> queue = DynamicCast<PointToPointNetDevice>(devices.Get(0))->GetQueue();
	queue->TraceConnectWithoutContext("Drop", MakeCallback(+[](Ptr<const Packet>) { seen.queue_drops++; }));
	sample(queue);
	Ptr<Socket> listener = Socket::CreateSocket(nodes.Get(1), TcpSocketFactory::GetTypeId());
	listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
	listener->Listen();
	listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address &>(), MakeCallback(&on_connection));
	start(nodes.Get(0), addresses.GetAddress(1));

	Simulator::Stop(Seconds(options.warmup + options.seconds));
	Simulator::Run();
	const double samples = std::max<double>(1, static_cast<double>(seen.samples));
	std::printf("{\"packets_s\":%.6f,\"done_s\":%.6f,\"queue_drops\":%llu,\"queue_mean\":%.4f,\"rtt_ms\":%.4f,"
		    "\"one_way_ms\":%.4f,\"round_trip_ms\":%.4f}\n",
		    static_cast<double>(seen.measured) / SEGMENT / options.seconds, seen.done,
		    static_cast<unsigned long long>(seen.queue_drops), seen.queue_sum / samples, 1e3 * seen.rtt_sum / samples,
		    1e3 * seen.one_way, 1e3 * seen.round_trip);
	Simulator::Destroy();
	return 0;
}
